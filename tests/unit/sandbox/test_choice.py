"""Which sandbox a worker has, what it says of it, and what it does without one."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ekiden.shared.environments import for_tools
from ekiden.shared.errors import ConfigurationError
from ekiden.shared.relay.pool_components import PoolComponents
from ekiden.shared.settings.model import Settings, load_settings
from ekiden.shared.stores.opening import Stores
from ekiden.workers import bootstrap
from ekiden.workers.sandbox import choice
from ekiden.workers.sandbox.choice import choose
from ekiden.workers.sandbox.sandbox import Sandbox
from tests.scenarios.relay import on_server
from tests.unit.sandbox.conftest import Workshop, sandbox_named

Without = Callable[..., None]


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Without:
    """Take away what no test can take from its kernel."""

    def take(*names: str) -> None:
        if "bubblewrap" in names:
            monkeypatch.setattr("ekiden.workers.sandbox.bubblewrap.find", lambda: None)
        if "landlock" in names:
            monkeypatch.setattr(choice, "landlock_abi", lambda: 0)
        if "seccomp" in names:
            monkeypatch.setattr("ekiden.workers.sandbox.seccomp.is_available", lambda: False)

    return take


def chosen(setting: str) -> Sandbox:
    return asyncio.run(choose(Settings(tools_sandbox=setting), for_tools(os.environ)))


def built(setting: str, root: Path) -> PoolComponents:
    """What a worker with this setting is made of."""
    found: list[PoolComponents] = []

    async def scenario(stores: Stores) -> None:
        found.append(await bootstrap.build(Settings(tools_sandbox=setting, workspace_root=root), stores))

    on_server(scenario)
    return found[0]


def test_the_strongest_that_works_is_chosen_and_why_it_is_no_stronger_is_said(without: Without) -> None:
    sandbox_named("bubblewrap")
    assert chosen("auto").told == "bubblewrap"
    without("bubblewrap")
    sandbox_named("landlock")
    second = chosen("auto")
    assert second.holds
    assert second.told.startswith("landlock (no bubblewrap: there is no program bwrap")
    assert "; open: files in the workspace" in second.told
    without("landlock")
    third = chosen("auto")
    assert not third.holds
    assert "no landlock: this kernel has none" in third.told
    assert third.openings() == "files and processes of the worker's user open", "the filter alone closes the network"
    without("seccomp")
    last = chosen("auto")
    assert "network open" in last.openings()
    assert "network open" not in last.openings(network=True), "nobody wonders who asked for one"


def test_a_filter_without_a_sandbox_keeps_commands_from_networks(
    make_shop: Callable[[str], Workshop], without: Without
) -> None:
    shop = make_shop("off")
    without("bubblewrap", "landlock")
    code = "import socket; socket.create_connection(('127.0.0.1', 9))"
    said = shop.run(f'python -c "{code}" 2>&1 | tail -1', sandbox=chosen("auto"))
    assert said.startswith("PermissionError"), said


@pytest.mark.parametrize("name", ["bubblewrap", "landlock"])
def test_one_that_is_asked_for_by_name_and_does_not_work_is_an_error(name: str, without: Without) -> None:
    without(name)
    with pytest.raises(ConfigurationError, match=f"'tools.sandbox': no {name}: .*Use 'auto'"):
        chosen(name)


def test_one_that_is_there_and_fails_is_told_with_its_own_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'setting up uid map: Permission denied' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr("ekiden.workers.sandbox.bubblewrap.find", lambda: str(broken))
    with pytest.raises(ConfigurationError, match="uid map: Permission denied"):
        chosen("bubblewrap")
    sandbox_named("landlock")
    assert chosen("auto").mechanism == "landlock"


def test_a_worker_that_requires_a_sandbox_and_has_none_goes_without_commands_and_says_so(
    tmp_path: Path, without: Without
) -> None:
    without("bubblewrap", "landlock")
    components = built("required", tmp_path)
    names = [tool.name for tool in components.tools]
    assert "bash" not in names
    assert "read_file" in names
    [problem] = components.problems
    assert "'tools.sandbox' is 'required'" in problem
    assert "bash" in problem
    assert components.sandbox.startswith("no sandbox")


def test_a_worker_announces_what_confines_its_commands(tmp_path: Path) -> None:
    assert built("off", tmp_path).sandbox.startswith("no sandbox (tools.sandbox is 'off'); open: network open")
    sandbox_named("bubblewrap")
    with_one = built("required", tmp_path)
    assert (with_one.sandbox, with_one.problems) == ("bubblewrap", ())
    assert "bash" in [tool.name for tool in with_one.tools]


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("SANDBOX", "bwrap", "'auto', 'bubblewrap', 'landlock', 'off' or 'required'"),
        ("MAX_PROCESSES", "-1", "greater than or equal to 0"),
        ("READABLE", "opt/tools", "absolute path"),
    ],
)
def test_settings_that_mean_nothing_are_errors(
    name: str, value: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"EKIDEN_TOOLS_{name}", value)
    with pytest.raises(ConfigurationError, match=problem):
        load_settings()


def test_further_folders_are_read_where_the_settings_name_them(make_shop: Callable[[str], Workshop]) -> None:
    shop = make_shop("off")
    sandbox_named("bubblewrap")
    settings = Settings(tools_sandbox="bubblewrap", tools_readable=[shop.folder / "outside"])
    sandbox = asyncio.run(choose(settings, shop.context.env))
    said = shop.run(f"cd {shop.folder}/outside && cat secret.txt; echo x > new", sandbox=sandbox)
    assert "s3cret" in said
    assert not (shop.folder / "outside" / "new").exists()
