"""Flowcharts in Mermaid's language: of a job's chain, and of graphs and teams.

In a job's, a node for each stretch that an agent had the job, arrows for its way; dotted ones for returns (``-.->``)
and refusals (``-.-x``), thick ones for delegations, each into a box of its own.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

from ekiden.dispatcher.cli.views.chain import Hop, figures_of, hops_of
from ekiden.dispatcher.cli.views.graph_picture import COLOURS, Picture
from ekiden.dispatcher.cli.views.notices import head_of, on_completion
from ekiden.dispatcher.journal.story import Step, Story
from ekiden.shared.redaction import redact
from ekiden.shared.terminal_text import one_line, visible

__all__ = ["drawn", "flowchart"]

_LONGEST = 80
"""Characters of a label's line."""
_MARKS = re.compile(r"^-|[!-+.:;<>-@\[-`{-~]")
"""What could mean something to Mermaid, to Markdown or to HTML; also ``:``, which is half of a statement on styles."""


def flowchart(story: Story) -> str:
    """Return the chart. Whatever the names and texts are, they are shown and steer nothing."""
    return "\n".join(["flowchart TD", *_Chart().user(story)])


_ARROWS = {"solid": "-->", "dotted": "-.->", "thick": "==>"}


def drawn(picture: Picture) -> str:
    """Return the chart of a picture. Whatever its names and texts are, they are shown and steer nothing."""
    lines = ["flowchart TD"]
    for number, shape in enumerate(picture.shapes):
        label = _label(shape.name, shape.below)
        lines.append(f"    n{number}([{label}])" if shape.is_end else f"    n{number}[{label}]")
    for arrow in picture.arrows:
        label = f"|{_label(arrow.label)}|" if arrow.label else ""
        lines.append(f"    n{arrow.source} {_ARROWS[arrow.style]}{label} n{arrow.target}")
    states = {f"n{number}": shape.state for number, shape in enumerate(picture.shapes) if shape.state}
    for state in dict.fromkeys(states.values()):
        lines.append(f"    classDef {state} fill:{COLOURS[state]},color:#1d2533")
        lines.append(f"    class {','.join(node for node, its in states.items() if its == state)} {state}")
    return "\n".join(lines)


class _Chart:
    """Counts nodes and boxes: their ids say nothing."""

    def __init__(self) -> None:
        self._count = 0

    def user(self, story: Story) -> Iterator[str]:
        """Yield the lines of a story, from who asked for it on."""
        asked = self._next("n")
        yield f"    {asked}([{_label(story.above[-1])}])"
        hops = hops_of(story)
        nodes = [self._next("n") for _ in hops]
        for node, hop in zip(nodes[:1], hops, strict=False):
            yield f"    {asked} -->|{_label(hop.why)}| {node}"
        yield from self._story(story, hops, nodes, "    ")

    def _story(self, story: Story, hops: list[Hop], nodes: list[str], indent: str) -> Iterator[str]:
        for node, hop in zip(nodes, hops, strict=True):
            yield f"{indent}{node}[{_label(hop.leg.who, figures_of(story, hop.leg))}]"
        for (before, node), hop in zip(pairwise(nodes), hops[1:], strict=True):
            match hop.leg.how:
                case "return":
                    label = _label("returned without a result" if hop.is_error else "returned", hop.why)
                case "automatic":
                    label = _label("on completion", on_completion(hop.why))
                case _:
                    label = _label(hop.why)
            yield f"{indent}{before} {'-.->' if hop.leg.how == 'return' else '-->'}|{label}| {node}"
        for node, hop in zip(nodes, hops, strict=True):
            for step in hop.leg.steps:
                if step.kind == "refused":
                    yield from self._refused(node, step, indent)
                elif step.kind == "delegated":
                    yield from self._delegated(story, node, step, indent)

    def _refused(self, node: str, step: Step, indent: str) -> Iterator[str]:
        refused = self._next("n")
        yield f"{indent}{refused}({_label(step.name)})"
        yield f"{indent}{node} -.-x|{_label('refused', step.detail.partition(': ')[0])}| {refused}"

    def _delegated(self, story: Story, node: str, step: Step, indent: str) -> Iterator[str]:
        child = story.children.get(step.child)
        hops = hops_of(child) if child else []
        box, nodes = self._next("c"), [self._next("n") for _ in hops] or [self._next("n")]
        if child is not None and hops:
            said = (child.end.answer or child.end.error or "") if child.end else ""
            yield f"{indent}subgraph {box}[{_label(f'{child.job} {child.status}', said.strip())}]"
            yield from self._story(child, hops, nodes, f"{indent}    ")
            yield f"{indent}end"
        else:
            yield f"{indent}{nodes[0]}[{_label(step.whom, step.child)}]"
        yield f"{indent}{node} ==>|{_label(step.detail)}| {nodes[0]}"

    def _next(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._count}"


def _label(*lines: str) -> str:
    """Return a quoted label. Mermaid's own escapes, ``#34;``, stand for every mark."""
    shown = [one_line(visible(redact(head_of(line))), _LONGEST) for line in lines]
    text = "<br/>".join(_MARKS.sub(lambda mark: f"#{ord(mark[0])};", line) for line in shown if line)
    return f'"{text or " "}"'
