"""What became of a request, for programs and notebooks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from ekiden.dispatcher.chain_picture import Box, chain_picture
from ekiden.dispatcher.journal.story import Leg, Story
from ekiden.dispatcher.journal.story_reader import job_tree_story
from ekiden.shared.ids import session_of
from ekiden.shared.messages import Usage
from ekiden.shared.prices import Prices
from ekiden.shared.records import Entry
from ekiden.shared.redaction import redact
from ekiden.shared.terminal_text import visible

__all__ = ["Result", "result_of"]


@dataclass(frozen=True)
class Result:
    """How a job ended. ``str()`` of it is its answer; a notebook shows the answer and the chain as a picture.

    Attributes:
        job: Its id: ``ekiden job show`` and ``ekiden trace show`` take it.
        status: ``done``, or how else it ended: ``failed``, ``cancelled``, …
        answer: What was answered; empty where it failed.
        output: The structured answer, where its agent's file declares an ``output``: ``answer`` is its text.
        error: Why it failed; empty where it has not.
        chain: The agents that had it, in order.
        usage: Tokens of all models, also of the jobs that it delegated.
        cost_usd: What they cost; None where nobody said.
        duration_s: From the request to the end.
        journals: All that was recorded, by job: its own first, then of those that it delegated.
        problems: What kept agents, tools or plug-ins from being in force.
    """

    job: str
    status: str
    answer: str
    error: str
    chain: tuple[str, ...]
    usage: Usage
    cost_usd: float | None
    duration_s: float
    journals: Mapping[str, Sequence[Entry]] = field(repr=False)
    problems: tuple[str, ...] = ()
    output: Any = None
    _story: Story | None = field(default=None, repr=False, compare=False)

    @property
    def ok(self) -> bool:
        """Whether it was done."""
        return self.status == "done"

    @property
    def session(self) -> str:
        """The conversation that it belongs to: ``run(…, session=result.session)`` goes on with it."""
        return session_of(self.job)

    @property
    def agent(self) -> str:
        """Who had it last; empty where nobody was found for it."""
        return self.chain[-1] if self.chain else ""

    @property
    def journal(self) -> Sequence[Entry]:
        """Its own journal."""
        return self.journals[self.job]

    def __str__(self) -> str:
        return self.answer if self.ok else f"{self.status}: {self.error}"

    def _repr_html_(self) -> str:
        text = escape(visible(redact(str(self))))
        told = "".join(f"<div>⚠ {escape(visible(problem))}</div>" for problem in self.problems)
        picture = chain_picture(_boxes(self._story)) if self._story is not None else ""
        return (
            f'<div>{told}<div style="white-space: pre-wrap">{text}</div><div style="overflow-x: auto">{picture}</div>'
            f"<small>{escape(self._figures())}</small></div>"
        )

    def _figures(self) -> str:
        tokens = self.usage.input_tokens + self.usage.output_tokens
        cost = [f"${self.cost_usd:.4f}"] if self.cost_usd else []
        return " · ".join([f"{self.duration_s:.1f} s", f"{tokens} tokens", *cost, f"job {self.job}"])


def result_of(
    job: str, journals: Mapping[str, Sequence[Entry]], prices: Prices, problems: Sequence[str] = ()
) -> Result:
    """Read the result of a job that has ended off its journals, as ``Client.journals`` returns them."""
    story = job_tree_story(job, journals, None, prices)
    end = story.end
    return Result(
        job=job,
        status=story.status,
        answer=(end.answer or "") if end else "",
        error=(end.error or end.reason or "") if end and story.status != "done" else "",
        chain=tuple(story.chain[1:]),
        usage=story.total_usage,
        cost_usd=story.total_cost_usd,
        duration_s=(story.now_ms - story.start_ms) / 1000,
        journals=journals,
        problems=tuple(problems),
        output=end.output if end else None,
        _story=story,
    )


def _boxes(story: Story) -> list[Box]:
    legs = [leg for leg in story.legs if leg.moved is not None]
    last = "" if story.end is None else "done" if story.status == "done" else "failed"
    boxes = [_box(leg, last if leg is legs[-1] else "") for leg in legs]
    return [Box(redact(story.chain[0])), *boxes]


def _box(leg: Leg, status: str) -> Box:
    assert leg.moved is not None
    context = leg.moved.context
    why = context.returned.text if context.returned is not None else context.reason
    took = f"{(leg.left_ms - leg.ready_ms) / 1000:.1f} s" if leg.left_ms is not None else ""
    return Box(leg.who, redact(why), took, status)
