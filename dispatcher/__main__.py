"""``ekiden``, also as ``python -m ekiden.dispatcher``: secrets are out of sight before anything slow is imported."""

import sys

__all__ = ["main"]

_INTERRUPTED = 130
"""As ``exit_codes`` has it, which is not imported yet when it is needed here."""


def main() -> None:
    """Run the command line and exit. Ctrl-C while it is still being imported ends it without a word, too."""
    try:
        _main()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


def _main() -> None:
    from ekiden.shared.errors import ConfigurationError
    from ekiden.shared.process_secrets import withdraw

    try:
        withdraw()
    except ConfigurationError as error:
        print(f"ekiden: {error}", file=sys.stderr)  # noqa: T201 - the program's own output
        sys.exit(error.exit_code)
    from ekiden.dispatcher.cli.main import run

    run()


if __name__ == "__main__":
    main()
