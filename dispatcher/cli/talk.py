"""A chat: one request after the other in one session, with the same pools throughout."""

import asyncio
import contextlib
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from dispatcher.cli.attend import INTERRUPTED, Showing, attend
from dispatcher.cli.follow import Follower
from dispatcher.cli.header import print_header, title_of
from dispatcher.cli.interrupts import Interrupted, interruptible
from dispatcher.cli.lines import Lines
from dispatcher.cli.output import Output
from dispatcher.cli.people import PeopleView
from dispatcher.cli.show import exit_code_of
from dispatcher.cli.stack import Stack
from dispatcher.cli.submission import Asked, Conversation
from dispatcher.client import Client
from shared.errors import UserError
from shared.ids import session_of
from shared.records import Ended, Entry, Routed

__all__ = ["Chat", "talk"]

_CANCEL_S = 5.0
_HELP = """exit, /exit     end the chat (or Ctrl-D)
context         show what was said
clear           begin a new session
/agent NAME     talk to this agent; without NAME the router chooses
/help           show this
Alt-Enter, or a backslash at the end of a line, begins another line; Ctrl-C stops an answer."""
T = TypeVar("T")


@dataclass(frozen=True)
class Chat:
    """How to talk. ``agent`` None: the router chooses, and whoever answered last goes on where no rule matches."""

    conversation: Conversation
    agent: str | None
    cwd: Path | None
    deadline_s: float
    showing: Showing


def talk(url: str, stack: Stack | None, chat: Chat, lines: Lines) -> int:
    """Chat until the lines end; return the exit code: that of the last answer when nobody sits at a terminal."""
    with asyncio.Runner() as runner:
        client = Client(url)
        runner.run(client.__aenter__())
        try:
            return _Talk(runner, client, stack, chat).run(lines)
        finally:
            runner.run(client.__aexit__())


class _Talk:
    """The state of a chat. Lines are read while the loop rests: then a terminal is all the reader's own."""

    def __init__(self, runner: asyncio.Runner, client: Client, stack: Stack | None, chat: Chat) -> None:
        self._runner = runner
        self._client = client
        self._stack = stack
        self._chat = chat
        self._out = Output()
        self._agent = chat.agent
        self._session: str | None = None
        self._last_agent: str | None = None
        self._models: set[str] = set()
        self._code = 0

    def run(self, lines: Lines) -> int:
        """Read and answer."""
        self._runner.run(self._open())
        while (text := lines.read()) is not None:
            words = text.split()
            if text.strip() in ("exit", "quit", "/exit", "/quit"):
                break
            if words and not self._is_command(words):
                self._answer(text)
        return 0 if self._out.is_terminal else self._code

    async def _open(self) -> None:
        """Find the session, and say whom one talks to."""
        if self._stack is not None and self._agent is not None:
            await self._stack.ready(self._client)
        title = "Ekiden" if self._agent is None else await title_of(self._client, self._agent)
        self._session = await self._chat.conversation.find(self._client, self._agent, self._note)
        if self._session is not None:
            self._last_agent = await self._who_answered(self._session)
        print_header(title, " (interactive mode)")
        self._out.line("Type 'exit' to quit, 'context' to view the conversation, '/help' for more")

    async def _who_answered(self, session: str) -> str | None:
        return next((one.agent for one in reversed(await self._client.said(session)) if one.agent), None)

    def _is_command(self, words: list[str]) -> bool:
        """Carry a command out, if it is one."""
        match [words[0].removeprefix("/"), *words[1:]]:
            case ["context"]:
                self._run(self._show_context())
            case ["clear"]:
                self._session = self._last_agent = None
                self._note("a new session begins")
            case ["help"] if words[0] == "/help":
                self._out.line(_HELP)
            case ["agent", *names] if words[0] == "/agent" and len(names) < 2:
                self._run(self._turn_to(names[0] if names else None))
            case _ if words[0].startswith("/") and "/" not in words[0][1:]:
                self._note(f"there is no command {words[0]}: /help lists them")
            case _:
                return False
        return True

    def _run(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Do something on the loop; what the user can mend ends nothing."""
        try:
            return self._runner.run(work)
        except UserError as error:
            self._out.line(f"{self._out.symbols['failed']} {error}", "red")
        except KeyboardInterrupt:
            self._out.fresh_line()
        return None

    def _answer(self, text: str) -> None:
        code = self._run(self._ask(text, self._agent))
        self._code = 1 if code is None else code

    async def _ask(self, text: str, agent: str | None) -> int:
        chat = self._chat
        job = await Asked(
            text, Conversation(chat.conversation.user, self._session), agent, chat.cwd, deadline_s=chat.deadline_s
        ).submit(self._client, self._note)
        self._session = session_of(job)
        view = _ChatView(job, self._out, thoughts=chat.showing.thoughts, models=self._models)
        view.heir = self._last_agent
        follower = Follower(self._client, job, view, is_served=self._stack is not None, outage_s=chat.showing.outage_s)
        end = await self._see(follower)
        if end is None:
            return INTERRUPTED
        if end.reason == "NO_ROUTE" and self._last_agent is not None:
            return await self._ask(text, self._last_agent)
        if end.status == "done":
            self._last_agent = (await self._client.job(job)).agent
        return exit_code_of(end.status, end.reason)

    async def _see(self, follower: Follower) -> Ended | None:
        """Show an answer to its end; None when the user stopped it."""
        stack = self._stack
        watch = asyncio.create_task(stack.watch(lambda: stack.tell_problems(self._note))) if stack else None
        try:
            return await attend(follower, watch, may_ask=False)
        except Interrupted as stop:
            self._note("stopping the answer")
            await self._stop(follower)
            if not stop.by_user:
                raise SystemExit(INTERRUPTED) from None
            return None
        finally:
            if watch is not None:
                watch.cancel()

    async def _stop(self, follower: Follower) -> None:
        """Cancel the job and show its end, if that takes no longer than anybody would wait."""
        with contextlib.suppress(TimeoutError, Interrupted):
            async with interruptible(), asyncio.timeout(_CANCEL_S):
                await self._client.cancel(follower.job)
                await follower.run()

    async def _turn_to(self, agent: str | None) -> None:
        self._note("the router chooses" if agent is None else f"you talk to {await title_of(self._client, agent)}")
        self._agent = agent

    async def _show_context(self) -> None:
        said = [] if self._session is None else await self._client.said(self._session)
        if not said:
            self._note("nothing has been said yet")
        for one in said:
            self._out.line(f"{one.agent or 'You'}: {one.message.text}")

    def _note(self, text: str) -> None:
        self._out.line(f"{self._out.symbols['note']} {text}", "yellow")


class _ChatView(PeopleView):
    """A job in a chat: no summary, and no routing that the user asked for."""

    heir: str | None = None
    """Who takes what no agent matches."""

    def _routed(self, record: Routed, entry: Entry) -> None:
        if record.stage != "agent":
            super()._routed(record, entry)

    def _ended(self, record: Ended, entry: Entry) -> None:
        self._break_off()
        if record.reason == "NO_ROUTE" and self.heir is not None:
            self._line("note", f"no agent matches this alone: {self.heir} goes on", "dim")
        elif record.status != "done" or not self._is_said(record):
            self._say_end(record)
