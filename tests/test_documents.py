"""The documents speak of what there is: files, names, links, commands, flags, settings and benchmarks."""

import importlib.util
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ekiden.dispatcher.cli.main import app
from ekiden.shared.settings.model import Settings, key_of

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FLOW = re.compile(r"`((?:shared|dispatcher|workers)/[\w/]+\.py):(\w+)`")
FILE = re.compile(r"`((?:shared|dispatcher|workers|tests|agents|deploy)/[\w./-]*\w(?:\.\w+)?)/?`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
CELL_END = re.compile(r"(?<!\\)\|")
LONG = 30
"""Characters with which two rows of a table begin the same only by mistake."""
COMMAND = re.compile(r"\bekiden ((?:[a-z]+(?:\\?\|[a-z]+)* ?)+)")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
PLUGINS = "tools|models|routers|hooks|guardrails|commands"
SETTING = re.compile(rf"`(ekiden\.[a-z_]+|agents\.(?:routing|tracing)\.[a-z_.]+|(?:{PLUGINS})\.[a-z_]+)`")
BENCHMARKS = sorted((ROOT / "tests" / "benchmarks").rglob("*.py"))
"""Their flags are the documents', too."""
OF_OTHERS = {
    "--wait-replicas",
    "--build",
    "--scale",
    "--new",
    "--null",
    "--init",
    "--dist",
}
"""Flags of Docker, pytest and our benchmarks."""
MOST_LINES = 200
"""Of the README: a newcomer reads it whole."""


def pages() -> list[str]:
    return [str(page.relative_to(ROOT)) for page in PAGES]


def anchors(page: Path) -> set[str]:
    """What links into a page may name: its headings, as GitHub spells them."""
    heads = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


@cache
def help_of(*words: str) -> str:
    done = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "250", "TERM": "dumb"})
    return done.stdout if done.exit_code == 0 else ""


@cache
def all_help() -> str:
    """What every command says of itself."""
    texts = [help_of()]
    for name in commands_in(help_of()):
        text = help_of(name)
        texts += [text, *(help_of(name, inner) for inner in commands_in(text))]
    return "\n".join(texts)


def commands_in(text: str) -> list[str]:
    _, _, listed = text.partition("Commands ")
    return re.findall(r"^│ ([a-z]+) ", listed, re.MULTILINE)


def commands_named(text: str) -> Iterator[list[str]]:
    """The commands of a text with their sub-commands: each of ``job show\\|result``."""
    for found in COMMAND.findall(text):
        first, *more = found.replace("\\|", "|").split()
        for inner in more[0].split("|") if more and first in GROUPS else [""]:
            yield [first, inner] if inner else [first]


GROUPS = {"job", "approvals", "sessions", "trace", "agents", "catalog", "config", "route"}


@pytest.mark.parametrize("page", pages())
def test_every_link_leads_somewhere(page: str) -> None:
    here = ROOT / page
    for link in LINK.findall(here.read_text("utf-8")):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (here.parent / path).resolve() if path else here
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def tables_in(text: str) -> list[list[list[str]]]:
    """The tables of a page: rows of cells, the line below the heads among them."""
    blocks = re.findall(
        r"(?:^\|.*\n?)+", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE
    )
    return [[CELL_END.split(row.strip().strip("|")) for row in block.splitlines()] for block in blocks]


@pytest.mark.parametrize("page", pages())
def test_every_table_is_whole_and_has_no_row_twice(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    for heads, rule, *rows in tables_in(text):
        assert all(re.fullmatch(r" ?:?-+:? ?", cell) for cell in rule), heads
        for row in rows:
            assert len(row) == len(heads), row
        about = [re.match(r"(`[^`]+`|.*)", row[0].strip())[0] for row in rows]  # type: ignore[index]  # anything matches
        twice = {one for one in about if len(one) > LONG and about.count(one) > 1}
        assert not twice


@pytest.mark.parametrize("page", pages())
def test_every_file_and_name_exists(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    for file, name in FLOW.findall(text):
        source = (ROOT / file).read_text("utf-8")
        assert re.search(rf"^\s*(async )?(def|class) {name}\b|^{name}\b", source, re.MULTILINE), f"{file}:{name}"
    for file in FILE.findall(text):
        assert (ROOT / file).exists(), file
    for module in re.findall(r"tests\.benchmarks\.\w+", text):
        assert importlib.util.find_spec(module) is not None, module


@pytest.mark.parametrize("page", pages())
def test_every_command_and_flag_exists(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    for words in commands_named(text):
        if words[0] in commands_in(help_of()):
            assert help_of(*words), words
    known = all_help() + "".join(path.read_text("utf-8") for path in BENCHMARKS)
    for flag in set(FLAG.findall(text)) - OF_OTHERS:
        assert flag in known, flag


@pytest.mark.parametrize("page", pages())
def test_every_setting_exists(page: str) -> None:
    known = {key_of(name) for name in Settings.model_fields}
    assert set(SETTING.findall((ROOT / page).read_text("utf-8"))) <= known


def test_the_flow_is_told_step_by_step() -> None:
    assert len(FLOW.findall((ROOT / "docs" / "architecture.md").read_text("utf-8"))) >= 8


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= MOST_LINES


def test_every_page_is_linked_from_the_readme() -> None:
    linked = LINK.findall((ROOT / "README.md").read_text("utf-8"))
    assert {f"docs/{page.name}" for page in PAGES[1:]} <= {link.partition("#")[0] for link in linked}
