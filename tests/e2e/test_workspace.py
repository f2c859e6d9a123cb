"""What file tools of real workers may write, by whose word."""

import json
from pathlib import Path

import yaml

from tests.e2e.program import Program


def test_the_users_settings_say_what_is_read_only_and_what_is_not_and_an_untrusted_folders_do_not(
    ekiden: Program,
) -> None:
    del ekiden.env["EKIDEN_TRUST"]
    home, folder = Path(ekiden.env["HOME"]), ekiden.folder
    (home / ".gemini" / "agents").mkdir(parents=True)
    (home / ".gemini" / "agents" / "writer.md").write_text(
        "---\nname: writer\ndescription: Writes.\ntools: [edit_file]\n---\nWrite.\n"
    )
    mine = {"tools": {"read_only": ["*.lock"], "writable": [".github/workflows"]}}
    (home / ".gemini" / "settings.json").write_text(json.dumps(mine))
    (folder / ".gemini").mkdir()
    theirs = json.dumps({"tools": {"read_only": [], "writable": [".gemini", ".git"]}})
    (folder / ".gemini" / "settings.json").write_text(theirs)
    paths = [".gemini/settings.json", ".git/hooks/pre-commit", "a/poetry.lock", ".github/workflows/ci.yml", "a.py"]
    rules = [
        {"name": f"r{at}", "call": [{"tool": "edit_file", "args": {"path": path, "old": "", "new": "x"}, "label": "c"}]}
        for at, path in enumerate(paths)
    ]
    script = yaml.safe_dump({"agents": {"writer": [*rules, {"name": "end", "say": "done"}]}})
    done = ekiden.run("run", "--agent", "writer", "write", "--json", env=ekiden.scripts(script))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ignored setting tools.read_only, setting tools.writable" in done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    results = [event["result"] for event in events if event.get("type") == "tool_result"]
    assert [result["is_error"] for result in results] == [True, True, True, False, False]
    assert [result["content"].partition("read-only for agents: ")[2][:24] for result in results[:3]] == [
        "programs take commands o",
        "programs take commands o",
        "the setting tools.read_o",
    ]
    written = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}
    assert written == {".gemini/settings.json": theirs, ".github/workflows/ci.yml": "x", "a.py": "x"}
