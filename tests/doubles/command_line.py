"""The command line as tests call it, in their own process."""

from functools import cache

from typer import testing

__all__ = ["make_apps_once"]


def make_apps_once() -> None:
    """Let each app be made once: typer's runner makes it anew for each command, which takes as long as most do."""
    testing._get_command = cache(testing._get_command)  # type: ignore[attr-defined]  # typer gives no other place
