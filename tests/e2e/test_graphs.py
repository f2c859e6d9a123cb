"""A graph over real workers, from a newcomer's first request on."""

from tests.e2e.program import Program


def job_in(shown: str) -> str:
    """Return the job that the last line of a run names."""
    return shown.rsplit(maxsplit=1)[-1]


def test_a_graph_of_agents_and_a_tool_is_run_and_shown_as_it_goes(ekiden: Program) -> None:
    for name in ("EKIDEN_TRUST", "EKIDEN_DATA_DIR", "EKIDEN_AUTO_APPROVE"):
        del ekiden.env[name]  # as a newcomer has it
    assert ekiden.run("init", "editorial").returncode == 0
    done = ekiden.run("run", "write an article about green tea")
    assert done.returncode == 0, done.stdout + done.stderr
    shown = iter(done.stdout.splitlines())
    for line in (
        "→ article: entry of graph article: draft",
        "🧩 article ⇒ facts (fact-checker), style (stylist), length (3 child jobs)",
        "→ article: facts → decide, style → decide, length → decide",
        "→ article: decide → draft [if: !verdict.good]",
        "→ article: decide → print [else]",
        "print (printer): GREEN TEA",
    ):
        assert line in shown, done.stdout  # in this order
    assert "steps of graph" not in done.stdout
    chain = ekiden.run("job", "chain")
    assert "→ draft (writer) (" in chain.stdout
    assert "decide → draft [if: !verdict.good]" in chain.stdout
    assert "  ✓ draft (writer) · 2 rounds" in ekiden.run("graph", "show", "--job", job_in(done.stdout)).stdout
    again = ekiden.run("job", "rerun")
    assert again.returncode == 0, again.stdout + again.stderr
    ekiden.wait_until_gone()
