"""A team of one's own, from nothing: made, changed, run, handed over, with its own tool called."""

import sys

from tests.e2e.program import Program

EDITOR = "import sys, pathlib; p = pathlib.Path(sys.argv[1]); p.write_text(p.read_text() + 'Be brief.\\n')"
SENT = "sent on Monday, arrives on Thursday"


def test_a_team_is_made_edited_and_run_and_hands_over_to_the_agent_with_the_projects_tool(ekiden: Program) -> None:
    for name in ("EKIDEN_TRUST", "EKIDEN_DATA_DIR", "EKIDEN_AUTO_APPROVE"):
        del ekiden.env[name]  # as a newcomer has it
    made = ekiden.run("init", "support")
    assert made.returncode == 0, made.stderr
    assert '\n  ekiden run "where is my parcel? the order is 1001"\n' in made.stdout
    edited = ekiden.run("agents", "edit", "orders", env={"EDITOR": f'{sys.executable} -c "{EDITOR}"'})
    assert edited.returncode == 0, edited.stdout + edited.stderr
    done = ekiden.run("run", "where is my parcel? the order is 1001")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "not trusted" not in done.stderr
    assert "🔀 frontdesk → orders: the customer asks about an order" in done.stdout
    assert "🔧 order_status 1001" in done.stdout
    assert f"orders: I have looked it up: order 1001: {SENT}, paid 24.90." in done.stdout
    assert "user → frontdesk → orders" in done.stdout

    held = ekiden.run("eval", "run", ".ekiden/evals/support.yaml")
    assert held.returncode == 0, held.stdout + held.stderr
    edited_since = "2 of 3 prompts are others than the recorded ones"
    assert f"✅ order-is-looked-up: frontdesk → orders ({edited_since})\n" in held.stdout
    assert "✅ nothing-is-paid-without-a-person: refunds\n" in held.stdout

    tools = ekiden.folder / ".ekiden" / "tools" / "orders.py"
    tools.write_text(tools.read_text().replace(SENT, "lost") + "nothing_of_this_name\n")
    broken = ekiden.run("run", "where is my parcel? the order is 1001", "--trust")
    line = len(tools.read_text().splitlines())
    assert f"{tools}:{line}: NameError: name 'nothing_of_this_name' is not defined" in broken.stdout
    ekiden.wait_until_gone()
