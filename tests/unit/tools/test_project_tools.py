"""The tools of a project: loaded where its user has allowed them, as they are, and told by file and line where not."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ekiden.dispatcher.cli.agents.tools import known_tools
from ekiden.dispatcher.cli.doctor.plugs import project_tools as examined
from ekiden.shared.once import Once
from ekiden.shared.project_tools import FOLDER, allowed_tool_files, tool_files
from ekiden.shared.project_trust import project_trust_of
from ekiden.shared.settings.model import load_settings
from ekiden.shared.settings.plugins import Allowed
from ekiden.shared.trust import notices
from ekiden.shared.trust.store import remember
from ekiden.workers.tools.base import Tool
from ekiden.workers.tools.project_tools import project_tools
from ekiden.workers.tools.registry import plugin_tools
from tests.unit.conftest import Install

PAGE = Path(__file__).parents[3] / "docs" / "tools.md"
ORDERS = '''
from pydantic import BaseModel
from ekiden import tool

class Order(BaseModel):
    """An order."""
    number: "int"

@tool(read_only=True)
def look_up_order(number: int) -> str:
    """Look up an order.

    Args:
        number: As it stands on the parcel.
    """
    return f"{Order(number=number).number} was sent"
'''


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, a project that nobody was asked about."""
    folder = tmp_path / "project"
    (folder / FOLDER).mkdir(parents=True)
    (folder / ".gemini").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("EKIDEN_TRUST", raising=False)
    monkeypatch.setattr(notices, "_told", Once())
    monkeypatch.setattr(notices, "_advised", Once())
    monkeypatch.chdir(folder)
    forget_tools()  # those of other tests' projects
    yield folder
    forget_tools()


def forget_tools() -> None:
    for name in [name for name in sys.modules if name.startswith("ekiden_project_tools.")]:
        del sys.modules[name]


def write(project: Path, name: str, text: str) -> Path:
    path = project / FOLDER / name
    path.write_text(text)
    return path


def trust(project: Path) -> None:
    remember(project, granted=project_trust_of(project).wanted)


def loaded(project: Path, *, allowed: Allowed | None = None, taken: tuple[str, ...] = ()) -> tuple[list[Tool], str]:
    """The tools of all files, whoever allowed them, and what is wrong, as one text."""
    plugins, broken = project_tools(tool_files(project))
    tools, problems = plugin_tools(allowed or Allowed(), taken, plugins)
    return tools, "\n".join((*broken, *problems))


def test_a_file_counts_once_its_user_has_allowed_it_and_is_asked_about_again_when_it_changes(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(project, "orders.py", ORDERS)
    assert allowed_tool_files(project) == []
    assert "is not trusted: ignored tool files orders.py. `ekiden trust` shows" in capsys.readouterr().err
    assert [right.shown for right in project_trust_of(project).unasked] == [
        "code of .ekiden/tools/orders.py: look_up_order"
    ]
    trust(project)
    assert [file.path for file in allowed_tool_files(project)] == [path]
    path.write_text(ORDERS + "\n# somebody else's\n")
    assert allowed_tool_files(project) == []


def test_what_was_allowed_is_what_runs_whatever_the_file_holds_by_then(project: Path) -> None:
    path = write(project, "orders.py", ORDERS)
    trust(project)
    files = allowed_tool_files(project)
    path.write_text("raise SystemExit('never asked about')")
    [plugin], problems = project_tools(files)
    assert (plugin.name, problems) == ("look_up_order", ())


def test_its_tools_can_be_called_and_say_where_they_are_from(project: Path) -> None:
    path = write(project, "orders.py", ORDERS)
    [tool], problems = loaded(project)
    assert problems == ""
    assert tool.function(tool.parse({"number": 7}), None) == "7 was sent"  # type: ignore[arg-type]  # takes no context
    assert (tool.package, len(tool.version), tool.risk) == (".ekiden/tools/orders.py", 12, "safe")
    assert tool.view.package == ".ekiden/tools/orders.py"
    assert not list(path.parent.glob("__pycache__")), "nothing is written beside it"


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("from ekiden import tool\n\ndef f(:\n", ":3", "no valid Python: "),
        ("x = 1\n\nraise SystemExit(3)\n", ":3", "SystemExit: 3"),
        ("def f():\n    return 1 / 0\n\nf()\n", ":2", "ZeroDivisionError: division by zero"),
        ("from ekiden import tool\n\n@tool\ndef f(x):\n    return x\n", ":3", "its parameter 'x' has no type: write"),
        ("import shop\n", ":1", "ModuleNotFoundError: No module named 'shop'"),
        ("def f() -> str:\n    return ''\n", "", "has no tool: write @tool above a function"),
        ("\0", "", "no valid Python: "),
        (ORDERS + ORDERS, ":26", "'look_up_order' is defined in line 10 already"),
    ],
)
def test_a_broken_file_is_told_with_its_line_and_hides_no_other(project: Path, text: str, line: str, said: str) -> None:
    path = write(project, "broken.py", text)
    write(project, "orders.py", ORDERS)
    write(project, "_not_a_tool_file.py", "raise SystemExit")
    (project / "shop.py").write_text("")  # no folder of the project is on Python's path
    tools, problem = loaded(project)
    assert [tool.name for tool in tools] == ["look_up_order"]
    assert re.match(rf"tools: {re.escape(str(path))}{line}: .*{re.escape(said)}", problem), problem


def test_a_file_that_cannot_be_read_is_told_and_is_never_trusted(project: Path) -> None:
    (project / FOLDER / "gone.py").symlink_to(project / "nowhere")
    (project / FOLDER / "folder.py").mkdir()
    problems = loaded(project)[1]
    assert "gone.py: cannot be read (No such file or directory): make it readable, or remove it" in problems
    assert "folder.py: is a folder: remove it" in problems
    trust(project)
    assert allowed_tool_files(project) == []


def test_two_tools_of_one_name_count_for_neither_and_both_are_named(project: Path, install: Install) -> None:
    write(project, "a.py", ORDERS)
    write(project, "b.py", ORDERS)
    tools, problem = loaded(project)
    assert tools == []
    assert "'look_up_order' is brought by" in problem
    assert "a.py:10) and" in problem
    (project / FOLDER / "b.py").unlink()
    install("order-tools", ORDERS, tools={"look_up_order": "look_up_order"})
    tools, problem = loaded(project, allowed=Allowed(packages=("order-tools",)))
    assert tools == []
    assert "order-tools 1.2" in problem


def test_a_name_of_ekidens_own_stays_ekidens(project: Path) -> None:
    write(project, "orders.py", ORDERS)
    tools, problem = loaded(project, taken=("look_up_order",))
    assert tools == []
    assert "is a name of Ekiden's own" in problem


def test_who_checks_agent_files_knows_their_names_without_running_them(project: Path) -> None:
    write(project, "orders.py", "import nothing_of_this_name\n" + ORDERS)
    write(project, "broken.py", "def (")
    names = known_tools(load_settings()).names
    assert "look_up_order" in names
    assert "ekiden_project_tools.orders" not in sys.modules


def test_doctor_names_the_files_and_says_what_keeps_them_from_being_loaded(project: Path) -> None:
    assert examined(project) == []
    write(project, "orders.py", ORDERS)
    assert [(one.status, one.remedy) for one in examined(project)] == [("warning", "ekiden trust")]
    trust(project)
    assert [(one.status, one.text) for one in examined(project)] == [("ok", "orders.py: look_up_order")]
    write(project, "empty.py", "")
    trust(project)
    assert [one.remedy for one in examined(project)] == ["write @tool above a function in .ekiden/tools/empty.py"]


def test_the_file_of_the_page_is_one(project: Path) -> None:
    found = re.search(
        r"<!-- tool: \.ekiden/tools/orders\.py -->\n```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL
    )
    assert found is not None
    write(project, "orders.py", found[1])
    [tool], problems = loaded(project)
    assert (tool.name, problems) == ("order_status", "")
    assert "sent" in str(tool.function(tool.parse({"number": "1001"}), None))  # type: ignore[arg-type]
