"""A graph over real workers, from a newcomer's first request on."""

from tests.e2e.program import Program


def test_a_graph_of_agents_and_a_tool_is_run_and_shown_as_it_goes(ekiden: Program) -> None:
    for name in ("EKIDEN_TRUST", "EKIDEN_DATA_DIR", "EKIDEN_AUTO_APPROVE"):
        del ekiden.env[name]  # as a newcomer has it
    assert ekiden.run("init", "editorial").returncode == 0
    done = ekiden.run("run", "write an article about green tea")
    assert done.returncode == 0, done.stdout + done.stderr
    shown = iter(done.stdout.splitlines())
    for line in (
        "→ article: entry of graph article: draft",
        "🧩 article ⇒ fact-checker, stylist, article (3 child jobs)",
        "→ article: facts → decide, style → decide, length → decide",
        "→ article: decide → draft [if: !verdict.good]",
        "→ article: decide → print [else]",
        "printer: GREEN TEA",
    ):
        assert line in shown, done.stdout  # in this order
    chain = ekiden.run("job", "chain")
    assert "→ writer (" in chain.stdout
    assert "decide → draft [if: !verdict.good]" in chain.stdout
    again = ekiden.run("job", "rerun")
    assert again.returncode == 0, again.stdout + again.stderr
    ekiden.wait_until_gone()
