"""Suites: recorded with what answers, played without."""

import re
import shutil

import pytest

from ekiden.shared.packs import pack_names, shipped_agents_dir
from tests.e2e.program import ANSWER_SCRIPT, Program

SUITE = """\
cases:
  - {name: named, request: look at this, agent: reviewer, expect: {chain: [reviewer], pattern: forty-two}}
  - {name: 没人, request: what is the capital of Peru, expect: {status: failed, pattern: no such words}}
"""


@pytest.mark.parametrize("pack", pack_names())
def test_the_suite_of_each_pack_holds_without_a_key_and_tells_of_other_prompts(ekiden: Program, pack: str) -> None:
    folder = ekiden.folder / "evals"
    shutil.copytree(shipped_agents_dir() / "_evals", folder)
    recordings = sorted((folder / f"{pack}.recordings").iterdir())
    recording = next(path for path in recordings if "fingerprint:" in path.read_text("utf-8"))
    recording.write_text(re.sub(r"tools: [0-9a-f]{32}", "tools: others", recording.read_text("utf-8")), "utf-8")
    done = ekiden.run("eval", "run", folder / f"{pack}.yaml", "--junit", "out.xml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(rf"✅ {recording.stem}: .* \((\d+) of \1 prompts are others than the recorded ones\)", done.stdout)
    assert (ekiden.folder / "out.xml").read_text("utf-8").count("<testcase ") == len(recordings) >= 3


def test_what_answers_is_recorded_and_what_is_not_as_expected_is_told(ekiden: Program) -> None:
    (ekiden.folder / "suite.yaml").write_text(SUITE, "utf-8")
    done = ekiden.run("eval", "run", "suite.yaml", "--record", env=ekiden.scripts(ANSWER_SCRIPT))
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.match(r"✅ named: reviewer\n❌ 没人: nobody\n   pattern: 'no such words' is not in .*\n", done.stdout)
    assert done.stdout.endswith("suite: 2 cases, 1 failed\n")
    recordings = sorted((ekiden.folder / "suite.recordings").iterdir())
    assert [path.name for path in recordings] == ["named.yaml", "没人.yaml"]
    assert "forty-two" in recordings[0].read_text("utf-8")
