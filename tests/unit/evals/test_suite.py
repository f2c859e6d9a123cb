"""Suites as people write them: what is wrong is said with file and line, and what to do."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from ekiden.dispatcher.cli.main import app
from ekiden.dispatcher.evals.suite import read_suite
from ekiden.shared.errors import InvalidRequest

CASE = """\
cases:
  - name: refund
    request: 我要退款
    expect: {status: done}
"""

TURNS = """\
cases:
  - name: two
    turns:
      - {request: eins, expect: {status: done}}
      - request: noch
        expect: {status: done}
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "suite.yaml"
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("", 1, "expected 'cases:'"),
        ("- a", 1, "expected 'cases:'"),
        ("cases: []", 1, "cases: "),
        ("cases: [", 1, "no YAML"),
        ("name: x\n" + CASE + "nmae: y\n", 6, "nmae: is not known here"),
        (CASE + "  - {name: b, request: '', expect: {status: done}}\n", 5, "cases.1.request: "),
        (CASE + "  - {name: REFUND, request: b, expect: {status: done}}\n", 5, "another case is named 'REFUND'"),
        (CASE + "  - {name: ../b, request: b, expect: {status: done}}\n", 5, "the name of a file"),
        (CASE + "  - {name: b, request: b, expect: {}}\n", 5, "says nothing"),
        (CASE + "  - {name: b, request: b}\n", 5, "cases.1.expect: is missing"),
        (CASE + "  - {name: b, request: b, inputs: {a: 1}, expect: {status: done}}\n", 5, "name the agent, too"),
        (CASE + "  - {name: b, turns: []}\n", 5, "cases.1.turns: "),
        (TURNS.replace("  expect: {status: done}", "  expect: {status: dnoe}"), 6, "cases.0.turns.1.expect.status: "),
        (TURNS.replace("noch", "''"), 5, "cases.0.turns.1.request: "),
        (TURNS + "    request: again\n", 7, "cases.0.request: is not known here"),
        (CASE.replace("done", "dnoe"), 4, "cases.0.expect.status: "),
        (
            CASE.replace("status: done", "pattern: '(?=x)'"),
            4,
            "no a regular expression of RE2".replace("no a", "not a"),
        ),
        (CASE.replace("status: done", "schema: {type: strnig}"), 4, "cases.0.expect.schema: "),
        (CASE.replace("    request", "    name: again\n    request"), 3, "'name' stands there twice"),
        ("packs: [sofware]\n" + CASE, 1, "there is no pack 'sofware'"),
        ("packs: &a [software]\nname: *a\n" + CASE, None, "aliases"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, text: str, line: int | None, told: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InvalidRequest) as refused:
        read_suite(path)
    place = f"{path}: " if line is None else f"{path}:{line}: "
    assert str(refused.value).startswith(place), refused.value
    assert told in str(refused.value)


def test_a_workspace_is_the_projects_own(tmp_path: Path) -> None:
    path = written(tmp_path, CASE + "workspace: /etc\n")
    assert read_suite(path).cases, "to play it, nobody needs its workspace"
    with pytest.raises(InvalidRequest, match=r"suite.yaml:5: workspace: '/etc' leads to '/etc', which is not in the"):
        read_suite(path, for_recording=True)
    with pytest.raises(InvalidRequest, match=r"workspace: 'shop' leads to '.*/shop', and nothing is there: name a"):
        read_suite(written(tmp_path, CASE + "workspace: shop\n"), for_recording=True)


def test_recordings_are_not_written_through_a_link(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    path = written(tmp_path, CASE)
    (tmp_path / "suite.recordings").symlink_to(elsewhere)
    done = CliRunner().invoke(app, ["eval", "run", str(path), "--record"])
    assert isinstance(done.exception, InvalidRequest)
    assert "suite.recordings: is a link" in str(done.exception)
    assert not list(elsewhere.iterdir())


@pytest.mark.parametrize("link", ["suite.recordings", "suite.recordings/refund.yaml"])
def test_recordings_are_not_read_through_a_link_that_leads_out_of_the_suites_folder(tmp_path: Path, link: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "refund.yaml").write_text("a: secret")
    folder = tmp_path / "evals"
    (folder / link).parent.mkdir(parents=True)
    (folder / link).symlink_to(tmp_path / "elsewhere" / ("refund.yaml" if link.endswith("yaml") else ""))
    done = CliRunner().invoke(app, ["eval", "run", str(written(folder, CASE))])
    assert isinstance(done.exception, InvalidRequest)
    assert "refund.yaml: leads out of the folder of the suite by a link" in str(done.exception)


def test_a_suite_is_read_no_further_than_it_may_go(tmp_path: Path) -> None:
    path = written(tmp_path, CASE)
    with path.open("ab") as file:
        file.truncate(2**40)
    with pytest.raises(InvalidRequest, match="is larger than 4,000,000 bytes"):
        read_suite(path)
    with pytest.raises(InvalidRequest, match="has more than 100,000 values"):
        read_suite(written(tmp_path, f"cases: [{'[],' * 100_000}]"))


def test_a_request_that_was_not_recorded_is_an_error_that_says_how_to(tmp_path: Path) -> None:
    path = written(tmp_path, CASE)
    done = CliRunner().invoke(app, ["eval", "run", str(path)])
    assert isinstance(done.exception, InvalidRequest)
    assert str(done.exception) == f"{path}: not recorded: 'refund': `ekiden eval run {path} --record` does it"


def test_a_turn_that_was_not_recorded_is_an_error_that_says_how_to(tmp_path: Path) -> None:
    path = written(tmp_path, TURNS)
    (tmp_path / "suite.recordings").mkdir()
    (tmp_path / "suite.recordings" / "two.yaml").write_text("jobs: {'1': [], '1.1': []}\n")
    done = CliRunner().invoke(app, ["eval", "run", str(path)])
    assert "suite.yaml: case 'two' has 2 turns, of which 1 are recorded: `ekiden eval run" in str(done.exception)


def test_approvals_are_for_recording_and_are_no_suites_to_give(tmp_path: Path) -> None:
    path = written(tmp_path, CASE + "approve: [high]\n")
    with pytest.raises(InvalidRequest, match="approve: is not known here"):
        read_suite(path)
    done = CliRunner().invoke(app, ["eval", "run", str(path), "--approve", "high"])
    assert "--approve is for --record" in str(done.exception)
