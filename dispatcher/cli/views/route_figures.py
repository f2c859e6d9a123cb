"""How ``ekiden route eval`` shows its figures; ``--json`` has them as they are."""

from collections.abc import Mapping, Sequence
from typing import Any

from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.shared.redaction import preview

__all__ = ["print_compared", "print_measured"]

_SHARES = {
    "in_scope_accuracy": ("right", "in_scope"),
    "in_scope_accuracy_unrefused": ("right, if nothing were refused", "in_scope"),
    "in_scope_top5": ("right one among the first five", "in_scope"),
    "in_scope_kept": ("not refused", "in_scope"),
    "oos_refused": ("refused, of nobody's", "out_of_scope"),
}
"""Figure -> what it is called, and of how many requests it is a share."""
_NOBODY = {"oos": "(refused)"}
_WORST = 12
_OTHERS = 3
_WRONG = 50
_LONGEST_REQUEST = 80


def print_compared(before: Mapping[str, Any], after: Mapping[str, Any], out: Output | None = None) -> None:
    """Show the figures of the files alone beside those with what was learned, and what is confused then."""
    out = out or Output()
    rows = [(name, _percent(before[key]), _percent(after[key])) for key, (name, _) in _SHARES.items()]
    out.table(("requests", "files alone", f"with {after['learned']} learned"), rows)
    out.line()
    print_measured(after, out)


def print_measured(figures: Mapping[str, Any], out: Output | None = None) -> None:
    """Show the figures, the stages, and which agents are confused most."""
    out = out or Output()
    unclear = f", {figures['unclear']} unclear ones left out" if figures["unclear"] else ""
    out.line(f"{figures['n']} requests, strategy {figures['strategy']}{unclear}", "bold")
    out.table(
        ("requests", "%", "count"),
        [(name, _percent(figures[key]), _count(figures[key], figures[of])) for key, (name, of) in _SHARES.items()],
    )
    out.line(f"\na request takes {figures['p50_ms']:.1f} ms, one in a hundred {figures['p99_ms']:.1f} ms or more\n")
    out.table(
        ("decided by", "requests", "right"),
        [(stage, str(one["decided"]), _percent(one["right"])) for stage, one in figures["stages"].items()],
    )
    if worst := _worst(figures["agents"]):
        out.line()
        out.table(("agent", "right", "%", "the others went to"), worst)
    if wrong := figures["wrong"]:
        out.line()
        shown = [(preview(one["text"], _LONGEST_REQUEST), _named(one["label"]), _named(one["went"])) for one in wrong]
        out.table(("wrong request", "is for", "went to"), shown[:_WRONG])
        if len(wrong) > _WRONG:
            out.line(f"and {len(wrong) - _WRONG:,} more: --json has them all")


def _worst(agents: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str, str, str]]:
    """Return the agents of which most requests went elsewhere, the worst first."""
    wrong = sorted((one["right"] - one["n"], agent) for agent, one in agents.items() if one["right"] < one["n"])
    found = [(agent, agents[agent]) for _, agent in wrong[:_WORST]]
    return [
        (
            agent,
            f"{one['right']} of {one['n']}",
            _percent(one["right"] / one["n"]),
            _others(list(one["others"].items())),
        )
        for agent, one in found
    ]


def _others(others: Sequence[tuple[str, int]]) -> str:
    shown = [f"{_named(other)} {count}" for other, count in others[:_OTHERS]]
    return ", ".join([*shown, *(["…"] if len(others) > _OTHERS else [])])


def _named(agent: str) -> str:
    return _NOBODY.get(agent, agent)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _count(share: float | None, of: int) -> str:
    return "-" if share is None else f"{round(share * of)} of {of}"
