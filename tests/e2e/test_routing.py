"""``ekiden route`` and the overrides of a request, as users meet them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.program import ANSWER_SCRIPT, Program
from tests.e2e.terminal import Terminal

AGENTS = {
    "parcels": ("Finds parcels and deliveries.", ["where is my parcel", "track my shipment", "my delivery is late"]),
    "accounts": ("Mends accounts and passwords.", ["I cannot log in", "reset my password", "change my address"]),
}


@pytest.fixture
def folder(ekiden: Program) -> Path:
    folder = ekiden.folder / "team"
    folder.mkdir()
    for name, (description, examples) in AGENTS.items():
        triggers = json.dumps({"examples": examples, "keywords": [name], "patterns": [rf"\b{name}\b"]})
        text = f"---\nname: {name}\ndescription: {description}\ntriggers: {triggers}\n---\nWork.\n"
        (folder / f"{name}.md").write_text(text)
    return folder


def analysis(ekiden: Program, *args: object, code: int = 0) -> dict[str, Any]:
    done = ekiden.run("route", *args, "--json")
    assert done.returncode == code, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_rule_that_is_sure_decides_and_its_arithmetic_is_shown(ekiden: Program) -> None:
    done = ekiden.run("route", "the tests fail with a TypeError", "--explain")

    assert done.returncode == 0
    assert "Method: rule-based matching\n  Agent: debugger\n" in done.stdout
    assert "(1 x 10 + 3 x 20) x 90/100 = 63" in done.stdout
    assert "Candidates by semantic:" in done.stdout
    assert done.stderr == ""


def test_what_no_rule_matches_goes_by_meaning_and_what_is_nobodys_is_refused(ekiden: Program, folder: Path) -> None:
    found = analysis(ekiden, "my package has not come yet", "--agents", folder)
    assert (found["agent"], found["stage"]) == ("parcels", "semantic")
    assert [stage["stage"] for stage in found["stages"]] == ["rule", "semantic"]

    refused = analysis(ekiden, "why is the sky blue", "--agents", folder, code=5)
    assert refused["agent"] is None


def test_settings_and_options_choose_the_strategy(ekiden: Program, folder: Path) -> None:
    ekiden.env["GEMINI_ROUTING_STRATEGY"] = "rule"
    assert analysis(ekiden, "my package has not come", "--agents", folder, code=5)["strategy"] == "rule"
    assert (
        analysis(ekiden, "@auto --strategy=semantic my package has not come", "--agents", folder)["agent"] == "parcels"
    )
    assert (
        analysis(ekiden, "parcels: where is my parcel", "--agents", folder, "--strategy", "hybrid")["stage"] == "rule"
    )

    ekiden.env["GEMINI_ROUTING_ENABLED"] = "false"
    assert "disabled" in analysis(ekiden, "parcels", "--agents", folder, code=5)["stages"][0]["note"]


def test_an_unknown_name_suggests_near_ones(ekiden: Program) -> None:
    done = ekiden.run("route", "@debuger why?")

    assert done.returncode == 2
    assert "did you mean @debugger?" in done.stderr


def test_evaluates_labelled_requests(ekiden: Program, folder: Path) -> None:
    rows = [("my parcel is lost", "parcels"), ("new password please", "accounts"), ("write a poem", "oos")]
    file = ekiden.folder / "rows.jsonl"
    file.write_text("\n".join(json.dumps({"text": text, "label": label}) for text, label in rows))

    done = ekiden.run("route", "eval", file, "--agents", folder, "--json")

    figures = json.loads(done.stdout)
    assert (figures["n"], figures["in_scope_accuracy"], figures["oos_refused"]) == (3, 1.0, 1.0)
    assert {"in_scope_accuracy_unrefused", "in_scope_kept", "oos_auroc", "p50_ms", "p99_ms"} <= figures.keys()
    assert (
        "refused, of nobody's            100%  1 of 1" in ekiden.run("route", "eval", file, "--agents", folder).stdout
    )


def test_a_run_heeds_what_the_request_says_of_its_routing(ekiden: Program) -> None:
    script = ekiden.scripts(ANSWER_SCRIPT)

    named = ekiden.run("run", '@reviewer "look at it"', env=script)
    assert named.returncode == 0, named.stderr
    assert "Routing as asked to: reviewer" in named.stdout

    unmatched = ekiden.run("run", "@auto --strategy=rule hello", env=script)
    assert unmatched.returncode == 5

    default = {"EKIDEN_ROUTING_FALLBACK": "default_agent", "EKIDEN_ROUTING_DEFAULT_AGENT": "debugger"}
    done = ekiden.run("run", "why is the sky blue", env=script | default)
    assert done.returncode == 0, done.stdout
    assert "Routing via fallback to: debugger" in done.stdout


def test_a_refusal_says_and_records_why_and_once_corrected_the_request_is_found(ekiden: Program) -> None:
    ekiden.env |= ekiden.scripts(ANSWER_SCRIPT) | {"EKIDEN_ROUTING_LEARN": "on"}
    refused = ekiden.run("run", "why is the sky blue", "--json")
    assert refused.returncode == 5
    records = [json.loads(line) for line in refused.stdout.splitlines()]
    unrouted = next(record for record in records if record.get("type") == "unrouted")
    assert [stage["stage"] for stage in unrouted["stages"]] == ["rule", "semantic"]
    assert "looks like no agent's work" in unrouted["why"]
    job = json.loads(ekiden.run("jobs", "--json").stdout)["id"]
    assert unrouted["why"] in ekiden.run("job", "show", job).stdout
    drawn = ekiden.run("trace", "show", job).stdout
    assert "nobody (no agent matches the request" in drawn
    assert f"semantic: {unrouted['agents'][0]}" in drawn
    told = json.loads(ekiden.run("trace", "show", job, "--json").stdout)
    steps = [step for attempt in told["legs"][0]["attempts"] for step in attempt["steps"]]
    [routed] = [step for step in steps if "stages" in step]
    assert [stage["note"] for stage in routed["stages"]] == [stage["note"] for stage in unrouted["stages"]]

    assert ekiden.run("run", "@documenter why is the sky blue").returncode == 0
    found = ekiden.run("run", "Why is the sky blue?")
    assert found.returncode == 0, found.stdout
    assert "to: documenter" in found.stdout


def test_on_a_terminal_the_user_chooses_who_takes_what_nobody_matches(ekiden: Program) -> None:
    with Terminal(ekiden, "run", "why is the sky blue", env=ekiden.scripts(ANSWER_SCRIPT)) as terminal:
        terminal.wait_for("1. ")
        terminal.wait_for("Who takes it?")
        terminal.type("debuger\r")
        terminal.wait_for("no agent is named 'debuger': did you mean debugger?")
        terminal.wait_for("Who takes it?")
        terminal.type("@Reviewer\r")
        terminal.wait_for("Routing as asked to: reviewer")
        terminal.wait_for("reviewer: forty-two")
        assert terminal.ends() == 0, terminal.text
    ekiden.wait_until_gone()
    listed = [json.loads(line) for line in ekiden.run("jobs", "--json").stdout.splitlines()]
    assert [(job["status"], job["id"].partition(".")[2]) for job in listed] == [("done", "2"), ("failed", "1")]
    assert len({job["id"].partition(".")[0] for job in listed}) == 1, "in the same session"


def test_on_a_terminal_a_number_is_an_answer_also_between_likely_agents_and_nothing_gives_up(
    ekiden: Program, redis_url: str
) -> None:
    ekiden.start("dispatcher")
    ekiden.start("worker", "--workspace-root", ".", env=ekiden.scripts(ANSWER_SCRIPT))
    nearest = analysis(ekiden, "why is the sky blue", code=5)["candidates"][0]["agent"]
    with Terminal(ekiden, "submit", "why is the sky blue", "--follow") as terminal:
        terminal.wait_for(f"1. {nearest}")
        terminal.wait_for("Who takes it?")
        terminal.type("1\r")
        terminal.wait_for(f"{nearest}: forty-two")
        assert terminal.ends() == 0, terminal.text
    with Terminal(ekiden, "submit", "@auto --strategy=rule review and document it", "--follow") as terminal:
        terminal.wait_for("several agents are about as likely")
        terminal.wait_for("1. documenter")
        terminal.wait_for("Who takes it?")
        terminal.type("2\r")
        terminal.wait_for("reviewer: forty-two")
        assert terminal.ends() == 0, terminal.text
        assert "failed" not in terminal.text, "it is a question, no failure"
    for answer in ("\r", "\x03"):
        with Terminal(ekiden, "submit", "why is the sky blue", "--follow") as terminal:
            terminal.wait_for("Who takes it?")
            terminal.type(answer)
            assert terminal.ends() == 5, terminal.text


def test_a_model_routes_without_a_key_and_says_that_it_is_a_stand_in(ekiden: Program) -> None:
    done = ekiden.run("run", "please review my change", "--strategy", "llm")
    assert done.returncode == 1, "there is nothing to review: " + done.stdout + done.stderr
    assert "🚧 reviewer could not do what was asked" in done.stdout
    assert "Routing via LLM to: reviewer (95% confidence, by the scripted stand-in for a model)" in done.stdout
