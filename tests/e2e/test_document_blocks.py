"""Every block of commands or Python in the documents runs, or the comment before it says why it does not."""

import json
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ekiden.shared.demo import write_demo
from ekiden.shared.embedded import attach
from tests.e2e.program import ANSWER_SCRIPT, Program, program_in

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(
    r"(?:<!-- not run: (?P<why>[^>]+) -->\n)?^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
SERVER = "redis://10.0.0.5:6379/0"
JOB = re.compile(r"\b(job chain|job events|trace show) \S+")
SERVERS = ("dispatcher", "worker")
"""Commands that run until they are ended."""


@dataclass(frozen=True)
class Block:
    """Between two lines of three backticks."""

    place: str
    kind: str
    text: str
    why_not: str | None

    @property
    def commands(self) -> list[str]:
        """Its lines that a reader types: all, or those behind a prompt."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return lines if self.kind == "sh" else [line[2:] for line in lines if line.startswith("$ ")]


def blocks() -> Iterator[Block]:
    for page in PAGES:
        text = page.read_text("utf-8")
        for found in BLOCK.finditer(text):
            line = text.count("\n", 0, found.start("text"))
            yield Block(f"{page.name}:{line}", found["kind"], found["text"], found["why"])


RUN = [block for block in blocks() if block.why_not is None and (block.kind == "python" or block.commands)]


@dataclass
class World:
    """A folder with the README's team and `ekiden up`, and a server for those who have one."""

    program: Program
    url: str
    job: str

    def run(self, block: Block) -> None:
        env: dict[str, str] = {}
        for line in block.commands:
            words = shlex.split(self.here(line), comments=True)
            if words[:1] == ["export"]:
                env |= dict(word.split("=", 1) for word in words[1:] if "…" not in word)
            elif words:
                assert words[0] == "ekiden", f"{line!r}: mark the block as not run, or teach this test to run it"
                self.command(words[1:], env)

    def command(self, words: list[str], env: dict[str, str]) -> None:
        if words[0] in SERVERS:
            self.program.start(*words, env=env).wait_for("Serving")
            return
        done = self.program.run(*words, env=env)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        assert done.stdout

    def here(self, line: str) -> str:
        """Put what there is here in the place of what a reader has."""
        line = JOB.sub(rf"\1 {self.job}", line.replace(SERVER, self.url))
        return line.replace("/srv/", f"{self.program.folder.parent}/srv/")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    root = tmp_path_factory.mktemp("documents")
    with attach(root / "server") as server, program_in(root) as program:
        agents = program.folder / ".gemini" / "agents"
        agents.mkdir(parents=True)
        for block in blocks():
            if block.place.startswith("README") and block.kind == "markdown":
                name = re.search(r"^name: (.+)$", block.text, re.MULTILINE)
                assert name
                (agents / f"{name[1]}.md").write_text(block.text)
        for folder in ("ledger", "work"):
            write_demo(root / "srv" / folder)
        write_demo(root / "srv" / "work" / "shop")
        program.env |= program.scripts(ANSWER_SCRIPT)
        program.start("up").wait_for("ready")
        assert program.run("run", "it fails with an error").returncode == 0
        job = json.loads(program.run("jobs", "--json").stdout.splitlines()[0])["id"]
        yield World(program, server.url, job)


def test_there_are_blocks_of_each_kind_and_a_reason_for_each_that_is_not_run() -> None:
    kinds = [(block.kind, block.why_not is None) for block in blocks()]
    assert {("sh", True), ("sh", False), ("python", True), ("", True)} <= set(kinds)


@pytest.mark.parametrize("block", [block for block in RUN if block.commands], ids=lambda block: block.place)
def test_the_commands_do_what_they_say(block: Block, world: World) -> None:
    world.run(block)


@pytest.mark.parametrize("block", [block for block in RUN if block.kind == "python"], ids=lambda block: block.place)
def test_the_python_runs(block: Block, world: World) -> None:
    running = world.program.start("-c", block.text, program=[sys.executable], env={"EKIDEN_REDIS_URL": world.url})
    assert running.ends() == 0, running.output
