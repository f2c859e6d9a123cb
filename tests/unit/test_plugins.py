"""What is loaded of other packages: what the settings allow, by name, and nothing that is broken."""

import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from ekiden.shared import plugins
from ekiden.shared.errors import ConfigurationError
from ekiden.shared.plugins import load, sources
from ekiden.shared.settings.model import key_of, load_settings
from ekiden.shared.settings.plugins import GROUPS, Allowed
from tests.unit.conftest import Install


@dataclass
class Hook:
    """What a group's objects are, for these tests."""

    name: str = "a-hook"


HOOKS = """
from tests.unit.test_plugins import Hook

one, another = Hook("one"), Hook("another")
both = [one, another]
number = 7
bad_name = Hook("no name")


class Made(Hook):
    def __init__(self):
        super().__init__("made")
"""


def test_nothing_of_an_installed_package_is_loaded_that_the_settings_do_not_name(install: Install) -> None:
    install("my-hooks", "raise SystemExit('loaded')", hooks={"one": "one"})
    assert load("hooks", Allowed(), Hook).plugins == ()
    assert "my_hooks" not in sys.modules


def test_the_entry_points_of_an_allowed_package_are_loaded_with_where_they_come_from(install: Install) -> None:
    install("my-hooks", HOOKS, hooks={"x": "both", "y": "Made"}, tools={"z": "number"})
    loaded = load("hooks", Allowed(packages=("My_Hooks",)), Hook)
    assert not loaded.problems
    assert list(loaded.made) == ["one", "another", "made"]
    assert {str(plugin.source) for plugin in loaded.plugins} == {
        "my-hooks 1.2 (my_hooks:both)",
        "my-hooks 1.2 (my_hooks:Made)",
    }


def test_an_attribute_of_a_module_needs_no_package(install: Install) -> None:
    install("my-hooks", HOOKS)
    loaded = load("hooks", Allowed(modules=("my_hooks:another",)), Hook)
    assert [(plugin.name, str(plugin.source)) for plugin in loaded.plugins] == [("another", "my_hooks:another")]


def test_an_object_without_a_name_has_that_of_its_entry_point(install: Install) -> None:
    install("my-numbers", "seven = 7", hooks={"lucky": "seven"})
    assert load("hooks", Allowed(packages=("my-numbers",)), int).made == {"lucky": 7}


def test_a_plug_in_is_loaded_once_in_a_process(install: Install) -> None:
    install("my-hooks", HOOKS, hooks={"y": "Made"})
    first, second = (load("hooks", Allowed(packages=("my-hooks",)), Hook).made["made"] for _ in range(2))
    assert first is second


@pytest.mark.parametrize(
    "text", ["import nothing_of_this_name", "raise SystemExit(3)", "raise BaseException('out')", "x =", "1 / 0"]
)
def test_a_broken_one_is_a_problem_that_names_it_and_hides_no_other(install: Install, text: str) -> None:
    install("broken", text, hooks={"one": "one"})
    install("my-hooks", HOOKS, hooks={"one": "one"})
    loaded = load("hooks", Allowed(packages=("broken", "my-hooks")), Hook)
    assert list(loaded.made) == ["one"]
    (problem,) = loaded.problems
    assert problem.startswith("hooks: broken 1.2 (broken:one) cannot be loaded: ")


def test_an_interruption_while_it_loads_is_no_problem_of_its(install: Install) -> None:
    install("slow", "raise KeyboardInterrupt", hooks={"one": "one"})
    with pytest.raises(KeyboardInterrupt):
        load("hooks", Allowed(packages=("slow",)), Hook)


def test_an_interruption_that_nobody_asked_for_is_a_fault_like_any_other(install: Install) -> None:
    install("slow", "raise KeyboardInterrupt", hooks={"one": "one"})
    problems: list[str] = []
    thread = threading.Thread(target=lambda: problems.extend(load("hooks", Allowed(packages=("slow",)), Hook).problems))
    thread.start()
    thread.join()
    assert problems == ["hooks: slow 1.2 (slow:one) cannot be loaded: KeyboardInterrupt:"]


ELUSIVE = """
from tests.unit.test_plugins import Hook

class Unprintable(Exception):
    def __str__(self):
        raise SystemExit("no text")

class Unmade(Hook):
    def __init__(self):
        raise Unprintable

class Nameless(Hook):
    @property
    def name(self):
        raise Unprintable

class Endless(list):
    def __iter__(self):
        raise SystemExit("no list")

class Unhashable(str):
    def __hash__(self):
        raise RuntimeError("no hash")

class Classless:
    @property
    def __class__(self):
        raise RuntimeError("no class")

class Coloured(Exception):
    def __str__(self):
        return "a\\x1b[31mred\\u202etext"

class Red(Hook):
    def __init__(self):
        raise Coloured

nameless = Nameless.__new__(Nameless)
several, endless, classless = [nameless], Endless([nameless]), Classless()
unhashable = Hook(Unhashable("x"))
"""


@pytest.mark.parametrize(
    ("attribute", "said"),
    [
        ("Unmade", "cannot be loaded: Unprintable: (its text cannot be had)"),
        ("nameless", "cannot be looked at: Unprintable: (its text cannot be had)"),
        ("several", "cannot be looked at: Unprintable: (its text cannot be had)"),
        ("endless", "cannot be looked at: SystemExit: no list"),
        ("classless", "cannot be loaded: RuntimeError: no class"),
        ("unhashable", "has no usable name ('x'): a plain str"),
        ("Red", r"cannot be loaded: Coloured: a\u001b[31mred\u202etext"),
    ],
)
def test_what_cannot_even_be_looked_at_is_a_problem_too(install: Install, attribute: str, said: str) -> None:
    install("elusive", ELUSIVE, hooks={"x": attribute})
    install("my-hooks", HOOKS, hooks={"one": "one"})
    loaded = load("hooks", Allowed(packages=("elusive", "my-hooks")), Hook)
    assert list(loaded.made) == ["one"]
    (problem,) = loaded.problems
    assert problem.startswith(f"hooks: elusive 1.2 (elusive:{attribute}) {said}")


def test_one_that_hangs_is_named_while_it_hangs(
    install: Install, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(plugins, "SLOW_S", 0.01)
    told = threading.Event()

    def noticed(_: object) -> bool:
        told.set()
        return True

    monkeypatch.setattr(caplog.handler, "filters", [noticed])
    monkeypatch.setattr(sys.modules[__name__], "hang", lambda: told.wait(30), raising=False)
    install("slow", "from tests.unit import test_plugins\n\none = test_plugins.hang()", hooks={"one": "one"})
    assert load("hooks", Allowed(packages=("slow",)), bool).made == {"one": True}
    assert "slow 1.2 (slow:one) is still being loaded" in caplog.text


def test_what_a_broken_one_says_is_masked_and_cut(install: Install) -> None:
    install("broken", "raise ValueError('password=hunter22-hunter22 ' + 'x' * 5_000)", hooks={"one": "one"})
    (problem,) = load("hooks", Allowed(packages=("broken",)), Hook).problems
    assert "hunter22" not in problem
    assert len(problem) < 500


@pytest.mark.parametrize(
    ("attribute", "said"),
    [("number", "the type int, where a Hook"), ("missing", "AttributeError"), ("bad_name", "no usable name")],
)
def test_what_is_no_such_object_is_a_problem(install: Install, attribute: str, said: str) -> None:
    install("my-hooks", HOOKS, hooks={"x": attribute})
    loaded = load("hooks", Allowed(packages=("my-hooks",)), Hook)
    assert loaded.plugins == ()
    assert said in loaded.problems[0]


def test_one_name_in_two_packages_counts_for_neither_and_both_are_named(install: Install) -> None:
    install("my-hooks", HOOKS, hooks={"x": "both"})
    install("other-hooks", HOOKS, "7.0", hooks={"x": "one"})
    loaded = load("hooks", Allowed(packages=("my-hooks", "other-hooks")), Hook)
    assert list(loaded.made) == ["another"]
    (problem,) = loaded.problems
    assert "'one'" in problem
    assert "my-hooks 1.2 (my_hooks:both) and other-hooks 7.0 (other_hooks:one)" in problem


def test_a_name_of_our_own_stays_ours(install: Install) -> None:
    install("my-hooks", HOOKS, hooks={"x": "both"})
    loaded = load("hooks", Allowed(packages=("my-hooks",)), Hook, own=["one"])
    assert list(loaded.made) == ["another"]
    assert "'one' of my-hooks 1.2 (my_hooks:both) is a name of Ekiden's own" in loaded.problems[0]


def test_an_allowed_package_that_is_not_here_or_offers_nothing_is_told_without_loading_it(install: Install) -> None:
    install("my-hooks", "raise SystemExit", tools={"x": "y"})
    found, problems = sources("hooks", Allowed(packages=("my-hooks", "no-such-package")))
    assert found == []
    assert problems == [
        "hooks: the package 'my-hooks' has no entry point in the group 'ekiden.hooks'",
        "hooks: the package 'no-such-package' is not installed here: install it, or leave it out",
    ]


@pytest.mark.parametrize("group", GROUPS)
def test_every_group_is_allowed_by_the_same_words(group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"EKIDEN_{group.upper()}_PACKAGES", "my-tools, other")
    monkeypatch.setenv(f"EKIDEN_{group.upper()}_MODULES", '["a.b:c"]')
    assert key_of(f"{group}_packages") == f"{group}.packages"
    settings = load_settings()
    assert settings.allowed(group) == Allowed(("my-tools", "other"), ("a.b:c",))  # type: ignore[arg-type]
    assert sum(bool(settings.allowed(other).packages) for other in GROUPS) == 1


@pytest.mark.parametrize(
    ("name", "value"), [("PACKAGES", "../x"), ("PACKAGES", "[1"), ("MODULES", "my_tools"), ("MODULES", "a:b()")]
)
def test_what_names_no_package_or_attribute_is_refused(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"EKIDEN_TOOLS_{name}", value)
    with pytest.raises(ConfigurationError, match=rf"tools\.{name.lower()}"):
        load_settings()


def test_a_folder_that_nobody_trusts_can_name_no_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("EKIDEN_TRUST")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = tmp_path / "clone" / ".gemini"
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text('{"tools": {"packages": ["evil"], "modules": ["evil:tool"]}}', "utf-8")
    monkeypatch.chdir(folder.parent)
    assert load_settings().allowed("tools") == Allowed()
    assert "ignored settings tools.modules, tools.packages" in capsys.readouterr().err


@pytest.mark.parametrize("line", ["x = ", "no equals sign", "x = my hooks:one"])
def test_metadata_that_cannot_be_read_are_a_problem(install: Install, tmp_path: Path, line: str) -> None:
    install("my-hooks", HOOKS, hooks={"one": "one"})
    install("odd", HOOKS)
    (tmp_path / "odd-1.2.dist-info" / "entry_points.txt").write_text(f"[ekiden.hooks]\n{line}\n", "utf-8")
    loaded = load("hooks", Allowed(packages=("odd", "my-hooks")), Hook)
    assert list(loaded.made) == ["one"]
    (problem,) = loaded.problems
    assert "odd" in problem


def test_what_is_allowed_twice_is_loaded_once(install: Install) -> None:
    install("my-hooks", HOOKS, hooks={"one": "one"})
    loaded = load("hooks", Allowed(packages=("my-hooks", "My_Hooks"), modules=("my_hooks:another",) * 2), Hook)
    assert (list(loaded.made), loaded.problems) == (["one", "another"], ())
