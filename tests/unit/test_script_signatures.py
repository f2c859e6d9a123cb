"""What a script is given is what its head declares, by name."""

import asyncio
import re
from pathlib import Path

import fakeredis
import pytest

from ekiden.shared.stores import scripts
from ekiden.shared.stores.scripts import Scripts, signature
from ekiden.shared.stores.signatures import signature_of

SCRIPTS = sorted(path.stem for path in Path(scripts.__file__).parent.glob("lua/[a-z]*.lua"))
HEAD = """-- What it does.
-- KEYS job
-- ARGV fence, leg,
--      variables..., records...
return {fence}
"""


def test_a_head_gives_names_their_places() -> None:
    found = signature_of("x", HEAD, "")
    given = {"leg": 3, "job": "k", "fence": "f", "records": ["r"], "variables": ["a", "1"]}
    assert found.lay_out(given) == (["k"], ["f", 3, 2, "a", "1", 1, "r"])


@pytest.mark.parametrize("wrong", [{}, {"job": "k", "fence": "f", "leg": 1, "records": [], "variables": [], "more": 1}])
def test_refuses_a_name_that_is_missing_or_unknown(wrong: dict[str, object]) -> None:
    with pytest.raises(TypeError, match=r"script 'x': missing \[.*\], unknown \[.*\]"):
        signature_of("x", HEAD, "").lay_out(wrong)


def test_a_script_cannot_be_run_with_less_than_it_declares() -> None:
    with pytest.raises(TypeError, match=r"script 'bury': missing \['raw'\], unknown \['rawer'\]"):
        asyncio.run(Scripts(fakeredis.FakeAsyncRedis()).run("bury", queue="q", reason="r", rawer="x"))


@pytest.mark.parametrize(
    ("head", "prelude"),
    [
        ("-- KEYS job\n-- ARGV job", ""),
        ("-- ARGV now", "local wall, now = 1, 2\n"),
        ("-- ARGV keep", "local function keep(ttl) end\n"),
        ("-- KEYS some..., others...", ""),
        ("-- ARGV id (of the job)", ""),
    ],
)
def test_refuses_a_head_whose_names_are_taken_or_none(head: str, prelude: str) -> None:
    with pytest.raises(ValueError, match="script 'x'"):
        signature_of("x", head, prelude)


def test_lua_reads_every_list_between_its_own_bounds() -> None:
    text = "-- KEYS one, rest...\n-- ARGV a, first..., second...\n"
    text += "return {one, rest.from, rest.to, a, first.from, first.to, second.from, second.to}"
    found = signature_of("x", text, "")
    keys, args = found.lay_out({"one": "k", "rest": ["l", "m"], "a": "A", "first": [], "second": ["s", "t"]})
    server = fakeredis.FakeRedis(decode_responses=True)
    assert server.eval(found.locals + text, len(keys), *keys, *args) == ["k", 2, 3, "A", 3, 2, 4, 5]


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_argument_of_a_script_is_used_in_it_and_none_is_read_by_its_place(name: str) -> None:
    body = re.sub(r"--.*", "", (Path(scripts.__file__).parent / "lua" / f"{name}.lua").read_text())
    declared = signature(name)
    unused = [one for one in (*declared.args, *declared.arg_lists) if not re.search(rf"\b{one}\b", body)]
    assert unused == []
    assert not re.search(r"\b(KEYS|ARGV)\[\d", body)
