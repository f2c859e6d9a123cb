"""JSON with comments: read, and changed in place."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ekiden.shared.jsonc import line_in, second_in, set_in, unset_in, without_comments

FILE = """{
  // how many at once
  "ekiden": {"concurrency": 3}, /* mine,
  of two lines */
  "ui": {
    "theme": "https://example.org/x /* no comment */" // a // in a text
  }
}
"""


def read(text: str) -> Any:
    return json.loads(without_comments(text))


def test_comments_are_read_over_and_every_place_stays() -> None:
    plain = without_comments(FILE)
    assert (len(plain), plain.count("\n")) == (len(FILE), FILE.count("\n"))
    assert read(FILE) == {
        "ekiden": {"concurrency": 3},
        "ui": {"theme": "https://example.org/x /* no comment */"},
    }


@pytest.mark.parametrize("text", ['{"a": 1,}', '{"a": [1,]}', "{'a': 1}", "{a: 1}", '{"a": 1 /* }', '{"a": "// }'])
def test_nothing_else_is_allowed_than_json_with_comments(text: str) -> None:
    with pytest.raises(json.JSONDecodeError):
        read(text)


@pytest.mark.parametrize(
    ("path", "value", "before", "after"),
    [
        ("ekiden.concurrency", 4, '{"concurrency": 3}', '{"concurrency": 4}'),
        ("ekiden.model", "x", '{"concurrency": 3}', '{"concurrency": 3, "model": "x"}'),
        ("ui.size", [], '*/" // a // in a text\n', '*/", // a // in a text\n    "size": []\n'),
        ("agents.on", True, "  }\n}", '  },\n  "agents": {\n    "on": true\n  }\n}'),
        ("ekiden.concurrency", None, '{"concurrency": 3}', "{}"),
        ("ekiden", None, '  "ekiden": {"concurrency": 3}, /* mine,\n  of two lines */\n', ""),
        ("ui.theme.colour", None, "", ""),
    ],
)
def test_a_change_touches_the_one_value(path: str, value: Any, before: str, after: str) -> None:
    names = path.split(".")
    changed = unset_in(FILE, names) if value is None else set_in(FILE, names, value)
    assert changed == FILE.replace(before, after)


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("", '{\n  "a": {\n    "b": 1\n  }\n}\n'),
        ("{}", '{\n  "a": {\n    "b": 1\n  }\n}'),
        ("// mine\n", '// mine\n{\n  "a": {\n    "b": 1\n  }\n}\n'),
        ("{ // mine\n}", '{ // mine\n  "a": {\n    "b": 1\n  }\n}'),
        ('{\n\t"z": 0\n}', '{\n\t"z": 0,\n\t"a": {\n\t  "b": 1\n\t}\n}'),
    ],
)
def test_what_is_missing_is_made_as_the_file_is_written(text: str, changed: str) -> None:
    assert set_in(text, ["a", "b"], 1) == changed


def test_what_stands_in_the_way_is_named() -> None:
    with pytest.raises(KeyError) as raised:
        set_in('{"a": {"b": 1}}', ["a", "b", "c", "d"], 2)
    assert raised.value.args == ("a", "b")


def test_of_a_name_that_stands_there_twice_the_last_counts_and_both_go() -> None:
    text = '{"a": 1, "a": 2, "b": 3}'
    assert read(set_in(text, ["a"], 4)) == {"a": 4, "b": 3}
    assert read(unset_in(text, ["a"])) == {"b": 3}
    many = '{"a": {"b": 1' + ', "a": 1' * 3000 + "}}"
    assert unset_in(many, ["a", "a"]) == '{"a": {"b": 1}}'


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ('{\n  // above\n  "a": 1, // of a\n  "b": 2\n}', '{\n  // above\n  "b": 2\n}'),
        ('{\n  "b": 2, // of b\n  "a": 1 // of a\n}', '{\n  "b": 2 // of b\n}'),
        ('{\n  "a": 1 /* of */, /* a,\n  too */\n  "b": 2\n}', '{\n  "b": 2\n}'),
        ('{\n  "a": 1 // of a\n  , "b": 2\n}', '{\n   "b": 2\n}'),
        ('{\n  "a": 1, "b": 2 // of both\n}', '{\n "b": 2 // of both\n}'),
        ('{"a": 1, // of the line\n  "b": 2}', '{ // of the line\n  "b": 2}'),
        ('{"b": 1 /* of b */, /* of a */ "a": 2}', '{"b": 1 /* of b */ /* of a */}'),
        ('{\r\n  "a": 1, // of a\r\n  "b": 2\r\n}', '{\r\n  "b": 2\r\n}'),
        ('{\n  "a": 1, // of a\n  "b": 2,\n  "a": 3 // of a\n}', '{\n  "b": 2\n}'),
    ],
)
def test_a_comment_goes_with_the_member_whose_line_it_ends(text: str, changed: str) -> None:
    assert unset_in(text, ["a"]) == changed


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ('{\r\n  "z": 0 // c\r\n}\r\n', '{\r\n  "z": 0, // c\r\n  "a": {\r\n    "b": 1\r\n  }\r\n}\r\n'),
        ('{\r\n  "a": 0\n}', '{\r\n  "a": {\r\n    "b": 1\r\n  }\n}'),
        ("// mine\r\n", '// mine\r\n{\r\n  "a": {\r\n    "b": 1\r\n  }\r\n}\r\n'),
        ('\ufeff{"a": {"b": 0}}', '\ufeff{"a": {"b": 1}}'),
        ("\ufeff{}", '\ufeff{\n  "a": {\n    "b": 1\n  }\n}'),
        ('{\n  "z": 0\n\n}', '{\n  "z": 0,\n  "a": {\n    "b": 1\n  }\n\n}'),
        ('{\n  "z": 0 // c\u00a0\n}', '{\n  "z": 0, // c\u00a0\n  "a": {\n    "b": 1\n  }\n}'),
    ],
    ids=["line ends", "the first line end counts", "only a comment", "mark", "mark, new", "empty line", "comment"],
)
def test_what_is_written_keeps_to_the_line_ends_and_marks_of_the_file(text: str, changed: str) -> None:
    value: Any = {"b": 1} if '"a": 0' in text else 1
    assert set_in(text, ["a"] if '"a": 0' in text else ["a", "b"], value) == changed


@pytest.mark.parametrize(
    "change",
    [
        lambda: set_in('{"k": ""' + ', "k": "a text of some length"' * 40_000 + "}", ["x"], 1),
        lambda: unset_in('{"k": 1' + ', "k": 1' * 40_000 + "}", ["k"]),
        lambda: without_comments("/* " * 300_000),
    ],
    ids=["set", "unset", "comments without an end"],
)
def test_a_large_file_takes_seconds_and_not_minutes(change: Callable[[], str]) -> None:
    started = time.process_time()
    assert change()
    assert time.process_time() - started < 15


names = st.sampled_from(["a", "b", "c", 'quo"te', "//", "/*", "é"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["//", "*/", '"', "\\"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(names, values, max_size=4)
gaps = st.sampled_from(["", " ", "\n  ", "// c }\n", "// c }\u00a0\r\n", "/* , */", "/* \n, */", "\t", "\r\n"])


@st.composite
def written(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """An object, and a text of it with comments wherever they may stand."""

    def text_of(value: Any) -> str:

        def gap() -> str:
            return draw(gaps)

        if isinstance(value, dict):
            inner = ",".join(f"{gap()}{json.dumps(k)}{gap()}:{gap()}{text_of(v)}{gap()}" for k, v in value.items())
            return f"{{{inner}{gap()}}}"
        if isinstance(value, list):
            return f"[{','.join(f'{gap()}{text_of(one)}{gap()}' for one in value)}{gap()}]"
        return json.dumps(value)

    value = draw(objects)
    return draw(gaps) + text_of(value) + draw(gaps), value


@given(made=written(), path=st.lists(names, min_size=1, max_size=3), value=values)
def test_any_change_of_any_file_does_that_and_no_more(
    made: tuple[str, dict[str, Any]], path: list[str], value: Any
) -> None:
    text, before = made
    assert read(text) == before
    expected = json.loads(json.dumps(before))
    place, is_blocked = expected, False
    for name in path[:-1]:
        place = place.setdefault(name, {})
        if not isinstance(place, dict):
            is_blocked = True
            break
    if not is_blocked:
        place[path[-1]] = value
        changed = set_in(text, path, value)
        assert read(changed) == expected
        del place[path[-1]]
        assert read(unset_in(changed, path)) == expected
        if path[0] not in before:  # else a comment may go with what it stood in
            assert changed.count("// c }") == text.count("// c }")


PLACES = """﻿{ // 1
  /* 2
     3 */ "a": {
    "b": [
      {"c": 1},
      "a", // 6

      {"d": {}}
    ]
  }
}"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (["a"], 3),
        (["a", "b", 0, "c"], 5),
        (["a", "b", 2, "d"], 8),
        (["a", "b", 9], 4),
        (["a", "b", 1, "none"], 6),
        (["none"], 1),
    ],
)
def test_the_line_of_a_place_is_that_of_what_is_nearest_to_it(path: list[str | int], line: int) -> None:
    assert line_in(PLACES, path) == line


def test_the_line_of_a_name_for_the_second_time_is_found_at_any_depth() -> None:
    assert second_in(PLACES) == 1
    assert second_in('{"a": [\n{"b": 1},\n{"b": 1, // b\n"b": 2}],\n"a": 3}') == 4
