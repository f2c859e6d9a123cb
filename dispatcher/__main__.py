"""``ekiden``, also as ``python -m ekiden.dispatcher``: secrets are out of sight before anything slow is imported."""

import sys

from ekiden.shared.errors import ConfigurationError
from ekiden.shared.process_secrets import withdraw

__all__ = ["main"]


def main() -> None:
    """Run the command line and exit."""
    try:
        withdraw()
    except ConfigurationError as error:
        print(f"ekiden: {error}", file=sys.stderr)  # noqa: T201 - the program's own output
        sys.exit(error.exit_code)
    from ekiden.dispatcher.cli.main import run

    run()


if __name__ == "__main__":
    main()
