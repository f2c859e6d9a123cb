"""The commands that source 001 shows, word for word with `ekiden` for `gemini`: what each one prints here.

Where a command is another one here, or comes later, the row is the error that names it: nothing is silent.
"""

import json
import shlex
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ekiden.dispatcher.cli.main import app
from ekiden.shared.errors import EkidenError
from ekiden.shared.settings.files import project_file
from ekiden.shared.settings.model import load_settings

CREATE = (
    'agents create debug-analyzer --title "Debug Analyzer" --model gemini-2.5-pro '
    "--tools read_file,grep,bash --mcp github --scope project"
)
SETTINGS = """\
// ~/.gemini/settings.json
{
  "agents": {
    "autoRoute": true,
    "defaultScope": "project",
    "contextPersistence": true,
    "tracing": {
      "enabled": true,
      "backend": "console"
    }
  },
  "mcpServers": {
    "github": {
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-github"],
      "env": {
        "GITHUB_TOKEN": "${GITHUB_TOKEN}"
      }
    }
  }
}
"""

EXAMPLES = [
    # 3.2.2 create
    (
        CREATE,
        0,
        [
            "Agent created: .gemini/agents/debug-analyzer.md",
            "MCP server not configured: github",
            "ekiden agents edit debug-analyzer",
            'ekiden agents run debug-analyzer -p "',
        ],
    ),
    (
        "agents create reviewer --template code-review",
        0,
        ["Agent created", "It counts instead of the agent 'reviewer'"],
    ),
    ("agents create docs --template documentation", 0, ["Agent created: .gemini/agents/docs.md"]),
    ("agents create test --template test-generator", 0, ["Agent created: .gemini/agents/test.md"]),
    ("agents create", 2, ["NAME is missing"]),  # which asks where there is a terminal
    ("agents create debug-analyzer --global", 0, ["Agent created: ", "home/.gemini/agents/debug-analyzer.md"]),
    # 3.2.3 list
    ("agents list", 0, ["Project agents", "debug-analyzer", "Debug Analyzer", "gemini-2.5-pro", "ekiden run --agent"]),
    ("agents list --scope global", 0, ["No agents (global)"]),
    ("agents list --scope project --format json", 0, ['"name": "debug-analyzer"', '"model": "gemini-2.5-pro"']),
    ("agents list --scope all --format table", 0, ["Project agents", "Shipped agents"]),
    # 3.2.4 run; what it prints of a job is shown by tests/e2e
    ('agents run nobody -p "Why is this test failing?"', 2, ["no agent is named 'nobody'"]),
    ("agents run debug-analyzer --trace", 2, ["--trace is for -p"]),
    # 3.2.1 edit, delete
    ("agents edit nobody", 2, ["no agent is named 'nobody'"]),
    ("agents delete debug-analyzer --scope global", 2, ["no agent is named 'debug-analyzer' on the level 'global'"]),
    ("agents delete debug-analyzer --scope project", 2, ["nobody is there to be asked: give --yes"]),
    # 3.2.5 validate
    (
        "agents validate debug-analyzer",
        1,
        [
            "Front matter valid",
            "Required fields present",
            "Model 'gemini-2.5-pro' known",
            "Tools [read_file, grep, bash] available",
            "MCP server not configured: github",
            "System prompt not empty",
            "warning: it has no description",  # nobody has said anything of it yet
            "the instructions hold a placeholder",
            "Validation: 5/8 passed",
        ],
    ),
    ("agents validate --all", 1, ["debug-analyzer", "1 error(s), 2 warning(s)"]),
    # 4.2.1
    ("agents create debug-flow --extended", 2, ["--extended asks, and nobody is there to be asked"]),
    # 4.2.2 graph
    ("agents graph visualize debug-analyzer", 2, ["agent 'debug-analyzer' has no graph: write 'graph'"]),
    ("agents graph replay --session abc123", 3, ["no server here"]),  # nothing has run here
    # 4.3 the main conversation, and traces
    ('route "There\'s a bug in the login flow"', 0, ["debug"]),
    ("agents trace export --session abc --format json", 3, ["no server here"]),  # nothing has run here
    ("trace export abc.1 --session abc", 2, ["exclude each other"]),
    ('agents route "There\'s a bug in the login flow"', 0, ["debug"]),
    ("agents handoff-chain", 3, ["no server here"]),
    # 000, 4: settings by their ends
    ("agents config routing", 0, ["agents.routing.enabled", "agents.routing.strategy", "prompt_user"]),
    ("agents config routing.enabled false", 0, ["agents.routing.enabled = false"]),
    ("agents config routing.strategy rule", 0, ["agents.routing.strategy = rule"]),
    ("agents config routing.strategy nosuch", 2, ["nosuch"]),
    ("agents config routing.rule.confidence_threshold 90", 0, ["agents.routing.rule.confidence_threshold = 90"]),
    ("agents config nosuch", 2, ["there is no setting 'agents.nosuch'"]),
    # 5.4 settings
    ("config set agents.autoRoute false", 0, ["agents.routing.enabled = false"]),
    ("config set agents.defaultScope global", 0, ["agents.defaultScope = global"]),
    ("config set agents.contextPersistence true", 0, ["agents.contextPersistence = true"]),
    ("config set agents.contextPersistence false", 2, ["sessions are always kept", "ekiden sessions clear ID"]),
    ("config set agents.tracing.enabled true", 0, ["agents.tracing.enabled = true"]),
    ("config set agents.tracing.backend console", 0, ["agents.tracing.backend = console"]),
]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project, which is the current folder, beside an empty home folder."""
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


@pytest.fixture(scope="module")
def with_an_agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which ``CREATE`` has been run, to be copied."""
    folder = tmp_path_factory.mktemp("with-an-agent")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        patch.chdir(folder)
        assert said_by(CREATE)[0] == 0
    return folder


def said_by(command: str) -> tuple[int, str]:
    """The exit code of a command line, and all that it says."""
    done = CliRunner().invoke(app, shlex.split(command), prog_name="ekiden")
    if isinstance(done.exception, EkidenError):
        return done.exception.exit_code, f"ekiden: {done.exception}"
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


@pytest.mark.parametrize(("command", "code", "says"), EXAMPLES, ids=[row[0][:60] for row in EXAMPLES])
def test_an_example_of_the_source_prints(
    project: Path, with_an_agent: Path, command: str, code: int, says: list[str]
) -> None:
    if " create" not in command:
        shutil.copytree(with_an_agent, project, dirs_exist_ok=True)
    found, text = said_by(command)
    assert found == code, text
    assert all(word in text for word in says), text


def test_the_sources_own_settings_are_read_comment_and_all(project: Path) -> None:
    path = Path.home() / ".gemini" / "settings.json"
    path.parent.mkdir()
    path.write_text(SETTINGS)
    settings = load_settings()
    assert (settings.tracing_enabled, settings.tracing_backend) == (True, "console")
    path.write_text(SETTINGS.replace('"autoRoute": true', '"autoRoute": false').replace('"project"', '"global"'))
    assert load_settings().routing_enabled is False
    assert "home/.gemini/agents/everywhere.md" in said_by("agents create everywhere")[1]
    path.write_text(SETTINGS)
    assert said_by(CREATE)[0] == 0
    assert "not configured" not in said_by("agents validate debug-analyzer")[1]
    rows = {row["key"]: row["origin"] for row in map(json.loads, said_by("config list --json")[1].splitlines())}
    assert rows["agents.tracing.backend"] == str(path)
    assert not project_file().exists()


def test_an_agents_file_is_whole_after_it_was_made_from_a_template(project: Path) -> None:
    said_by("agents create debug-analyzer --template debugging")
    text = (project / ".gemini" / "agents" / "debug-analyzer.md").read_text()
    front, _, body = text.removeprefix("---\n").partition("\n---\n")
    assert "name: debug-analyzer" in front
    assert body.strip()
