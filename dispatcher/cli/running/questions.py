"""What a job asks people: put to whoever follows it on a terminal, else left in the inbox and told of."""

import asyncio
import contextlib
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ekiden.dispatcher.cli.exit_codes import INTERRUPTED, WAITS_FOR_PEOPLE
from ekiden.dispatcher.cli.terminal.interrupts import Interrupted, typed_unless
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views.approvals import decided_by, how_to_answer, is_cut, question_lines
from ekiden.dispatcher.client import Client
from ekiden.shared.approvals import Answer, ApprovalView
from ekiden.shared.errors import AlreadyDecided, ApprovalGone, ConfigurationError, InvalidRequest, NotPermitted
from ekiden.shared.project_folders import project_of
from ekiden.shared.risk import RISKS, Risk
from ekiden.shared.trust.store import ApprovedCall, remember, remembered

__all__ = ["LeftWaiting", "Questions", "Reply", "reply_to"]

_LOOK_S = 1.0
"""How often we look whether somebody else has answered what stands on the terminal."""

Word = Literal["yes", "job", "folder", "no", "show"]
_WORDS: Mapping[str, Word] = {
    **dict.fromkeys(("yes", "y", "是"), "yes"),
    **dict.fromkeys(("no", "n", "否"), "no"),
    **dict.fromkeys(("job", "yes for this job"), "job"),
    **dict.fromkeys(("folder", "yes for this folder"), "folder"),
    "show": "show",
}


class LeftWaiting(Exception):
    """All that is left of a job waits for people, and nobody is asked here any more; it goes on waiting."""

    def __init__(self, code: int) -> None:
        """Keep what the command ends with."""
        super().__init__("the job waits for people")
        self.code = code


@dataclass(frozen=True)
class Reply:
    """What was typed: a word, or the text that answers a question of an agent."""

    word: Word
    text: str = ""


def reply_to(approval: ApprovalView, typed: str) -> Reply | None:
    """Read what was typed after a question; None: it is no answer to it."""
    text = typed.strip()
    plain = unicodedata.normalize("NFKC", text).casefold()
    if approval.kind == "call":
        return Reply(word) if (word := _WORDS.get(plain)) else None
    if approval.choices and plain.isascii() and plain.isdecimal() and 1 <= int(plain) <= len(approval.choices):
        return Reply("yes", approval.choices[int(plain) - 1])
    if not text or (approval.choices and text not in approval.choices):
        return None
    return Reply("yes", text)


class Questions:
    """Sees to all that one job, and those below it, ask people.

    Attributes:
        may_ask: Somebody sits at a terminal. Turns false when they close their input.
        leaves: Where nobody is asked, stop following once all that is left waits for people.
        is_local: The job's folder is one of this machine, so that what its user approved for it counts.
    """

    def __init__(
        self,
        client: Client,
        job: str,
        note: Callable[[str], None],
        *,
        may_ask: bool = False,
        leaves: bool = False,
        is_local: bool = False,
    ) -> None:
        self._client = client
        self._job = job
        self._note = note
        self.may_ask = may_ask
        self.leaves = leaves
        self.is_local = is_local
        self._out = Output()
        self._passed: set[str] = set()
        """What was told of and is left to others."""
        self._for_job: dict[tuple[str, str], Risk] = {}
        """The riskiest calls that were approved for the rest of a job, by job and tool."""
        self._is_first = True
        self._project: Path | None = None

    async def settle(self) -> None:
        """See to what waits now: ask, answer as was said for the folder, or tell which command answers.

        Raises:
            LeftWaiting: nothing more is to be done here.
            Interrupted: somebody asked the program to end.
        """
        while waiting := await self._waiting():
            self._project = await self._project_here()
            for approval in waiting:
                await self._see_to(approval)
        if self._passed and self.leaves and not self.may_ask and await self._client.only_waits(self._job):
            raise LeftWaiting(WAITS_FOR_PEOPLE)

    async def _waiting(self) -> list[ApprovalView]:
        found = await self._client.approvals(job=self._job)
        return sorted((one for one in found if one.id not in self._passed), key=lambda one: one.asked_at_ms)

    async def _project_here(self) -> Path | None:
        """Return the project that the job works in, where it is one of this machine."""
        folder = (await self._client.job(self._job)).cwd if self.is_local else ""
        return project_of(Path(folder)) if folder else None

    async def _see_to(self, approval: ApprovalView) -> None:
        if self._is_approved_here(approval):
            await self._answer(approval, "approved", why=f"approved for the folder {self._project}", always=True)
        elif self._is_approved_for_job(approval):
            await self._answer(approval, "approved", why="approved for the job")
        elif self.may_ask:
            await self._ask(approval)
        else:
            self._leave(approval)

    def _is_approved_here(self, approval: ApprovalView) -> bool:
        if self._project is None or approval.kind != "call" or approval.risk == "critical":
            return False
        with contextlib.suppress(ConfigurationError):  # what cannot be read approves nothing
            return _call_of(approval) in remembered(self._project).approved
        return False

    def _is_approved_for_job(self, approval: ApprovalView) -> bool:
        """Tell whether it was asked together with one that was approved for its whole job."""
        most = self._for_job.get((approval.job, approval.tool))
        return most is not None and RISKS.index(approval.risk) <= RISKS.index(most) and approval.kind == "call"

    def _leave(self, approval: ApprovalView) -> None:
        """Say which command answers it."""
        self._passed.add(approval.id)
        what = "an answer" if approval.kind == "question" else f"somebody to approve {approval.tool}"
        self._note(f"{how_to_answer(approval)}: job {approval.job} waits for {what}")  # first what may be copied whole

    async def _ask(self, approval: ApprovalView) -> None:
        """Ask until there is an answer: here, or from elsewhere."""
        self._show(approval)
        gone = asyncio.create_task(self._answered_elsewhere(approval.id))
        try:
            while (reply := await self._reply(approval, gone)) is not None:
                if reply.word != "show":
                    return await self._carry_out(approval, reply)
                self._show(approval, whole=True)
        except Interrupted as stop:
            if not stop.by_user:
                raise
            self._out.line()
            for one in await self._waiting():
                self._leave(one)
            raise LeftWaiting(INTERRUPTED) from None
        finally:
            await _end(gone)

    async def _reply(self, approval: ApprovalView, gone: "asyncio.Task[ApprovalView | None]") -> Reply | None:
        """Return what is typed; None: nobody types any more, or it was answered meanwhile."""
        prompt = "Approve? (yes/no): " if approval.kind == "call" else _answer_prompt(approval)
        while typed := await typed_unless(prompt, gone):
            if (reply := reply_to(approval, typed)) is not None:
                return reply
            self._out.line(_correction(approval), "yellow")
        self._out.line()
        if typed is None:
            found = gone.result()
            self._out.line(
                f"{approval.tool}: {decided_by(found) if found else 'nobody can answer it any more'}", "yellow"
            )
        else:
            self.may_ask = False
            self._leave(approval)
        return None

    async def _answered_elsewhere(self, approval_id: str) -> ApprovalView | None:
        """Return an approval once it waits no more; None: there is none any more."""
        with contextlib.suppress(ApprovalGone):
            while True:
                if (found := await self._client.approval(approval_id)).status != "waiting":
                    return found
                await asyncio.sleep(_LOOK_S)
        return None

    def _show(self, approval: ApprovalView, *, whole: bool = False) -> None:
        for part in question_lines(approval, self._out.symbols, whole=whole):
            self._out.line(part)
        offered = self._offered(approval)
        if offered:
            self._out.line(f"   {', '.join(offered)}", "dim")
        self._is_first &= approval.kind != "call"

    def _offered(self, approval: ApprovalView) -> list[str]:
        """Return the words that may be said beside yes and no, explained at the first question."""
        words = ["show: all of it"] if is_cut(approval) else []
        if approval.kind != "call" or not self._is_first:
            return words
        folder = [f"folder: yes for this folder ({self._project})"] if self._may_remember(approval) else []
        return ["yes", "job: yes for this job", *folder, "no", *words]

    def _may_remember(self, approval: ApprovalView) -> bool:
        return self._project is not None and approval.risk != "critical"

    async def _carry_out(self, approval: ApprovalView, reply: Reply) -> None:
        if approval.kind == "question":
            await self._answer(approval, "answered", answer=reply.text)
        elif reply.word == "no":
            said = f"denied: {approval.agent} is told so, and the job goes on without this call"
            self._out.line(f"{self._out.symbols['cancelled']} {said}", "yellow")
            await self._answer(approval, "denied")
        else:
            await self._approve(approval, reply.word)

    async def _approve(self, approval: ApprovalView, word: Word) -> None:
        is_for_folder = word == "folder" and self._may_remember(approval)
        if word == "folder" and not is_for_folder:
            self._out.line("   for this call: it cannot be said for its folder", "yellow")
        is_always = word == "job" or is_for_folder
        is_done = await self._answer(approval, "approved", always=is_always)
        if is_done and is_always:
            self._for_job[approval.job, approval.tool] = approval.risk
        if is_done and is_for_folder and self._project is not None:
            self._remember(self._project, approval)

    def _remember(self, project: Path, approval: ApprovalView) -> None:
        try:
            remember(project, approved=[_call_of(approval)])
        except ConfigurationError as error:
            self._out.line(f"   it is not remembered: {error}", "yellow")
        else:
            self._out.line(
                f"   remembered: {approval.tool} (risk {approval.risk}) in {project}; `ekiden trust` shows it", "dim"
            )

    async def _answer(
        self,
        approval: ApprovalView,
        status: Literal["approved", "denied", "answered"],
        *,
        why: str = "",
        answer: str | None = None,
        always: bool = False,
    ) -> bool:
        """Answer it, or say why that cannot be; then it is left to others."""
        said = Answer(status, approval.digest, why=why, answer=answer, always_for_job=always)
        try:
            await self._client.answer(approval.id, said)
        except (AlreadyDecided, ApprovalGone, NotPermitted, InvalidRequest) as error:
            self._passed.add(approval.id)
            self._note(f"{approval.tool}: {error}")
            return False
        return True


async def _end(task: "asyncio.Task[Any]") -> None:
    """Cancel a task, more than once if need be: an answer of the server that comes just then swallows it."""
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=_LOOK_S)
    if not task.cancelled():
        task.exception()  # it is of no interest any more


def _call_of(approval: ApprovalView) -> ApprovedCall:
    return ApprovedCall(approval.tool, approval.risk)


def _answer_prompt(approval: ApprovalView) -> str:
    return f"Answer (1-{len(approval.choices)}): " if approval.choices else "Answer: "


def _correction(approval: ApprovalView) -> str:
    if approval.kind == "call":
        return "   that is neither yes nor no"
    return "   give one of the numbers, or one of the answers" if approval.choices else "   say something"
