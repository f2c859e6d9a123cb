"""A chat: one request after the other in one session, with the same pools throughout."""

import asyncio
import contextlib
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from ekiden.dispatcher.cli.exit_codes import INTERRUPTED, exit_code_of
from ekiden.dispatcher.cli.running.agent_choice import Offer, offer_of
from ekiden.dispatcher.cli.running.agents_commands import run_agents_command
from ekiden.dispatcher.cli.running.preapproval import NOTHING_APPROVED, Preapproval
from ekiden.dispatcher.cli.running.questions import LeftWaiting
from ekiden.dispatcher.cli.running.server_prompts import PromptCommand, Prompts, prompts_here
from ekiden.dispatcher.cli.running.submission import CliRequest, SessionChoice
from ekiden.dispatcher.cli.running.watch import DisplayOptions, watch_job
from ekiden.dispatcher.cli.terminal.interrupts import Interrupted, interruptible, is_on_terminal
from ekiden.dispatcher.cli.terminal.line_input import LineInput
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views.header import print_header, title_of
from ekiden.dispatcher.cli.views.terminal_view import TerminalView
from ekiden.dispatcher.client import Client
from ekiden.dispatcher.clients import client_of
from ekiden.dispatcher.journal.follower import Follower
from ekiden.dispatcher.local.stack import Stack
from ekiden.dispatcher.routing.llm import ROUTER_AGENT
from ekiden.dispatcher.small_talk import answer_to
from ekiden.shared.errors import NotConfirmed, UserError
from ekiden.shared.ids import session_of
from ekiden.shared.once import Once
from ekiden.shared.processes.grace_periods import JOB_S
from ekiden.shared.project_folders import project_of
from ekiden.shared.records import Ended, Entry, Routed

__all__ = ["Chat", "run_repl"]

_HELP = """exit, /exit     end the chat (or Ctrl-D)
context         show what was said
clear           begin a new session
@NAME text      NAME takes this one message; @auto text: it is routed
/agent NAME     talk to this agent; without NAME to whom the session's policy says
/agents …       as `ekiden agents …`: list, route "TEXT", config routing, trace, handoff-chain
/mcp:S:P ARGS   send the prompt P of the MCP server S, with its arguments
/help           show this, and the prompts that there are
Alt-Enter, or a backslash at the end of a line, begins another line; Ctrl-C stops an answer."""
T = TypeVar("T")


@dataclass(frozen=True)
class Chat:
    """How to talk. ``agent`` None: who gets a message is for the session's policy to say."""

    session_choice: SessionChoice
    agent: str | None
    cwd: Path | None
    deadline_s: float
    display: DisplayOptions
    state: Mapping[str, Any] = field(default_factory=dict)
    """Session variables that the first message sets."""
    preapproval: Preapproval = NOTHING_APPROVED
    inputs: Mapping[str, Any] | None = None
    """What ``agent`` is called with, in each of its messages."""


@dataclass(frozen=True)
class _OpenChoice:
    """A request that nobody was found for, and whom it may go to."""

    asked: CliRequest
    session: str
    offer: Offer


def run_repl(url: str, stack: Stack | None, chat: Chat, lines: LineInput) -> int:
    """Chat until the lines end; return the exit code: that of the last answer when nobody sits at a terminal."""
    with asyncio.Runner() as runner:
        client = client_of(url)
        runner.run(client.__aenter__())
        try:
            return _Repl(runner, client, stack, chat, url).run(lines)
        finally:
            runner.run(client.__aexit__())


class _Repl:
    """The state of a chat. Lines are read while the loop rests: then a terminal is all the reader's own."""

    def __init__(self, runner: asyncio.Runner, client: Client, stack: Stack | None, chat: Chat, url: str) -> None:
        self._url = url
        self._runner = runner
        self._client = client
        self._stack = stack
        self._chat = chat
        self._out = Output()
        self._agent = chat.agent
        self._state = chat.state
        self._session: str | None = None
        self._models = Once()
        self._code = 0
        self._open_choice: _OpenChoice | None = None

    def run(self, lines: LineInput) -> int:
        """Read and answer."""
        self._runner.run(self._open())
        while (text := lines.read()) is not None:
            words = text.split()
            if text.strip() in ("exit", "quit", "/exit", "/quit"):
                break
            if words and (command := PromptCommand.of(text)):
                self._send_prompt(command)
            elif words and not self._is_command(words) and not self._is_choice(text):
                self._answer(text)
        if (prompts := self.__dict__.get("_prompts")) is not None:
            prompts.close()
        return 0 if self._out.is_terminal else self._code

    async def _open(self) -> None:
        """Find the session, and say whom one talks to."""
        if self._stack is not None and self._agent is not None:
            await self._stack.ready(self._client)
        title = "Ekiden" if self._agent is None else await title_of(self._client, self._agent)
        self._session = await self._chat.session_choice.find(self._client, self._agent, self._note)
        print_header(title, " (interactive mode)")
        self._out.line("Type 'exit' to quit, 'context' to view the conversation, '/help' for more")

    def _is_command(self, words: list[str]) -> bool:
        """Carry a command out, if it is one."""
        match [words[0].removeprefix("/"), *words[1:]]:
            case ["context"]:
                self._run(self._show_context())
            case ["clear"]:
                self._session = None
                self._note("a new session begins")
            case ["help"] if words[0] == "/help":
                self._out.line(_HELP)
                self._run(self._list_prompts())
            case ["agent", *names] if words[0] == "/agent" and len(names) < 2:
                self._run(self._turn_to(names[0] if names else None))
            case ["agents", *_] if words[0] == "/agents":
                run_agents_command(" ".join(words), self._url, self._note)
            case _ if words[0].startswith("/") and "/" not in words[0][1:]:
                self._note(f"there is no command {words[0]}: /help lists them")
            case _:
                return False
        return True

    async def _list_prompts(self) -> None:
        for line in await self._prompts.lines(self._project) if self._prompts else ():
            self._out.line(line)

    def _send_prompt(self, command: PromptCommand) -> None:
        """Send what a server writes, and show it: it is said in the user's name."""
        if self._prompts is None:
            self._note("no worker is installed here, which would speak to MCP servers")
        elif text := self._run(self._prompts.text(self._project, *command)):
            self._out.line(text)
            self._answer(text)

    @cached_property
    def _prompts(self) -> Prompts | None:
        return prompts_here()

    @property
    def _project(self) -> Path:
        return project_of(self._chat.cwd or Path.cwd())

    def _run(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Do something on the loop; what the user can mend ends nothing."""
        try:
            return self._runner.run(work)
        except UserError as error:
            self._out.line(f"{self._out.symbols['failed']} {error}", "red")
        except KeyboardInterrupt:
            self._out.fresh_line()
        return None

    def _is_choice(self, text: str) -> bool:
        """Let the agent that is named take what nobody was found for, if the line names one: else it is a new one."""
        if (choice := self._open_choice) is None or not choice.offer.is_answer(text):
            return False
        if (agent := choice.offer.meant(text.strip())) is None:
            self._note(choice.offer.correction(text.strip()))
        else:
            self._code = self._run(self._send(choice.asked.instead(agent, choice.session))) or 0
        return True

    def _answer(self, text: str) -> None:
        code = self._run(self._ask(text))
        self._code = 1 if code is None else code

    async def _ask(self, text: str) -> int:
        """Ask as ``ekiden run`` does; what is no work of anybody's is answered here."""
        chat = self._chat
        if self._agent is None and (friendly := answer_to(text, await self._agents())):
            self._note(friendly)
            return 0
        asked = CliRequest(
            text,
            self._session_choice,
            cwd=chat.cwd,
            deadline_s=chat.deadline_s,
            state=self._state,
            preapproval=chat.preapproval,
            asks=is_on_terminal(),
        )
        asked = asked.overridden(None).by_default(self._agent)
        return await self._send(replace(asked, inputs=chat.inputs) if asked.agent == chat.agent else asked)

    async def _agents(self) -> list[str]:
        return [name for name in await self._client.agents() if name != ROUTER_AGENT]

    async def _send(self, asked: CliRequest) -> int:
        """See a request through; where nobody is found for it, the next line may say who takes it."""
        self._open_choice = None
        job = await self._submit(asked)
        self._session, self._state = session_of(job), {}
        code = await self._see_through(job)
        if is_on_terminal() and (offer := await offer_of(self._client, job, code)) is not None:
            self._open_choice = _OpenChoice(asked, self._session, offer)
            self._note("Who takes it? A number or a name; or go on with something else")
        return code

    async def _submit(self, asked: CliRequest) -> str:
        """Create the job; one that replicas do not have is likely to run all the same, and is shown if it does."""
        try:
            return await asked.submit(self._client, self._note, is_served=self._stack is not None)
        except NotConfirmed as error:
            self._note(str(error))
            return error.job

    @property
    def _session_choice(self) -> SessionChoice:
        """The session that the next message belongs to; the first one begins it."""
        chat = self._chat.session_choice
        return SessionChoice(chat.user, self._session, policy=None if self._session else chat.policy)

    async def _see_through(self, job: str) -> int:
        display = self._chat.display
        view = _ChatView(job, self._out, thoughts=display.thoughts, models=self._models)
        follower = Follower(self._client, job, view, is_served=self._stack is not None, outage_s=display.outage_s)
        return await self._see(follower)

    async def _see(self, follower: Follower) -> int:
        """Show an answer to its end; return its exit code."""
        stack = self._stack
        watch = asyncio.create_task(stack.watch(lambda: stack.tell_problems(self._note))) if stack else None
        try:
            questions = self._chat.display.questions(follower)
            end = await watch_job(follower, questions, watch, may_ask=False)
            return exit_code_of(end.status, end.reason)
        except LeftWaiting as left:
            if not self._out.is_terminal:  # the next line would wait for people, too
                raise SystemExit(left.code) from None
            self._note(f"it waits, and what you say next waits behind it (`ekiden job cancel {follower.job}` ends it)")
            return left.code
        except Interrupted as stop:
            self._note("stopping the answer")
            await self._stop(follower)
            if not stop.by_user:
                raise SystemExit(INTERRUPTED) from None
            return INTERRUPTED
        finally:
            if watch is not None:
                watch.cancel()

    async def _stop(self, follower: Follower) -> None:
        """Cancel the job and show its end, if that takes no longer than anybody would wait."""
        with contextlib.suppress(TimeoutError, Interrupted):
            async with interruptible(), asyncio.timeout(JOB_S):
                with contextlib.suppress(NotConfirmed):  # it is cancelled as far as anybody can see
                    await self._client.cancel(follower.job)
                await follower.run()

    async def _turn_to(self, agent: str | None) -> None:
        title = "whom the session's policy says" if agent is None else await title_of(self._client, agent)
        self._note(f"you talk to {title}")
        self._agent = agent

    async def _show_context(self) -> None:
        said = [] if self._session is None else await self._client.messages(self._session)
        if not said:
            self._note("nothing has been said yet")
        for one in said:
            self._out.line(f"{one.agent or 'You'}: {one.message.text}")

    def _note(self, text: str) -> None:
        self._out.line(f"{self._out.symbols['note']} {text}", "yellow")


class _ChatView(TerminalView):
    """A job in a chat: no summary, and no routing that the user asked for."""

    def _routed(self, record: Routed, entry: Entry) -> None:
        if record.stage != "agent":
            super()._routed(record, entry)

    def _ended(self, record: Ended, entry: Entry) -> None:
        self._break_off()
        if record.status != "done" or not self._is_said(record):
            self._say_end(record)
