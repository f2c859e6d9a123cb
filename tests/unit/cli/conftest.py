"""What the tests of the command line share."""

from tests.doubles.command_line import make_apps_once

make_apps_once()
