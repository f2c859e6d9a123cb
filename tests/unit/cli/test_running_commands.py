"""Commands in one data folder know of each other."""

from pathlib import Path

import pytest

from ekiden.dispatcher.local.locks import RunningCommands, UpLock, root_of_up
from ekiden.shared.errors import ConfigurationError


def test_the_first_command_is_alone_and_the_next_is_not(tmp_path: Path) -> None:
    with RunningCommands(tmp_path) as first:
        assert first.is_alone
        first.join()
        with RunningCommands(tmp_path) as second:
            assert not second.is_alone
    with RunningCommands(tmp_path) as third:
        assert third.is_alone


def test_there_is_one_up_per_folder_and_others_learn_its_root(tmp_path: Path) -> None:
    assert root_of_up(tmp_path) is None
    with UpLock(tmp_path, Path("/srv/shop")):
        assert root_of_up(tmp_path) == Path("/srv/shop")
        with pytest.raises(ConfigurationError, match="runs already"):
            UpLock(tmp_path, Path("/elsewhere"))
        assert root_of_up(tmp_path) == Path("/srv/shop")
    assert root_of_up(tmp_path) is None
