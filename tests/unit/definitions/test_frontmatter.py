import pytest

from ekiden.shared.definitions.frontmatter import read_front_matter
from ekiden.shared.definitions.problems import AgentFileError

FILE = "---\nname: fixer\ndescription: Repairs.\n---\n\nYou repair.\n"


def test_splits_fields_and_body_and_knows_their_lines() -> None:
    parts = read_front_matter(FILE)

    assert parts.fields == {"name": "fixer", "description": "Repairs."}
    assert parts.body == "You repair."
    assert parts.body_line == 6
    assert parts.lines == {"name": 2, "description": 3}
    assert parts.warnings == ()


def test_reads_front_matter_after_blank_lines() -> None:
    parts = read_front_matter("\n\n" + FILE)

    assert parts.fields["name"] == "fixer"
    assert parts.lines["name"] == 4


def test_dashes_in_the_body_belong_to_the_body() -> None:
    assert read_front_matter(FILE + "\n---\nmore").body == "You repair.\n\n---\nmore"


@pytest.mark.parametrize(("opening", "closing", "line"), [("----", "----", 1), ("---", "-" * 40 + " ", 4)])
def test_more_than_three_dashes_will_do_with_a_warning(opening: str, closing: str, line: int) -> None:
    parts = read_front_matter(f"{opening}\nname: x\ndescription: d\n{closing}\nbody")

    assert (parts.fields, parts.body) == ({"name": "x", "description": "d"}, "body")
    [(at, text)] = parts.warnings
    assert at == line
    assert "more than the three dashes" in text


@pytest.mark.parametrize(
    ("text", "said", "line"),
    [
        ("", "there is no front matter", 1),
        ("# A heading\n", "there is no front matter", 1),
        ("--\nname: x\n--\n", "there is no front matter", 1),
        ("---\nname: x\n", "does not end", 1),
        ("---\n---\nbody", "must hold 'key: value' lines", 2),
        ("---\n- a\n- b\n---\n", "must hold 'key: value' lines", 2),
        ("---\nname: x\nok: [1\nmore: 2\n---\n", "not valid YAML", 4),
        ("---\nname: x\na:\n\tb: [1\n---\n", "not with tabs", 4),
        ("---\nname: !!python/object/apply:os.getcwd []\n---\n", "not valid YAML", 2),
        ("---\nname: x\nwhen: 2024-13-45\n---\n", "month must be in", 2),
        ("---\nname: !!bool perhaps\n---\n", "not valid YAML", 2),
        ("---\nname: \0\n---\n", "not valid YAML", 2),
        ("---\na: " + "[" * 5000 + "]" * 5000 + "\n---\n", "not valid YAML", 2),
        ("---\n? [a]\n: b\n---\n", "not valid YAML", 2),
    ],
)
def test_refuses_what_is_no_front_matter_with_line_and_reason(text: str, said: str, line: int) -> None:
    with pytest.raises(AgentFileError, match=said) as caught:
        read_front_matter(text)

    assert caught.value.line == line


def test_refuses_aliases_that_expand_hugely() -> None:
    rows = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    rows += [
        f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]" for before, name in zip("abcde", "bcdef", strict=True)
    ]

    with pytest.raises(AgentFileError, match="45 YAML aliases"):
        read_front_matter("\n".join(["---", "name: x", *rows, "---", ""]))


def test_reads_a_few_aliases() -> None:
    assert read_front_matter("---\na: &a [1]\nb: *a\n---\n").fields == {"a": [1], "b": [1]}


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("Use for: this and that", "Use for: this and that"),
        ("It's for: this", "It's for: this"),
        ("ends with a colon:", "ends with a colon:"),
        ("*", "*"),
        ("**Always** first", "**Always** first"),
        ("@someone", "@someone"),
    ],
)
def test_quotes_a_plain_value_that_yaml_refuses_and_warns(value: str, read: str) -> None:
    parts = read_front_matter(f"---\nname: x\ndescription: {value}\n---\nbody")

    assert parts.fields["description"] == read
    [(line, text)] = parts.warnings
    assert line == 3
    assert "'description'" in text


def test_the_lenient_retry_does_not_touch_what_strict_yaml_reads() -> None:
    parts = read_front_matter("---\nurl: http://host:80/x\nblock: |\n  a: b: c\n---\n")

    assert parts.fields == {"url": "http://host:80/x", "block": "a: b: c\n"}
    assert parts.warnings == ()


def test_a_failed_retry_reports_what_the_author_wrote() -> None:
    with pytest.raises(AgentFileError, match="mapping values are not allowed") as caught:
        read_front_matter("---\ndescription: a: b\nother: [1\n---\n")

    assert caught.value.line == 2


def test_warns_of_a_key_given_twice() -> None:
    parts = read_front_matter("---\nname: one\ndescription: d\nname: two\n---\n")

    assert parts.fields["name"] == "two"
    assert parts.warnings == ((4, "'name' was already given in line 2; this one counts"),)


@pytest.mark.parametrize("name", ["x", "a: b"])  # the second is read in the lenient way
@pytest.mark.parametrize("key", ["permissionMode", "disallowedTools", "Tools", "max_turns", "readOnly", "sandbox-mode"])
def test_refuses_a_field_that_restricts_and_is_given_twice(name: str, key: str) -> None:
    with pytest.raises(AgentFileError, match=f"'{key}' was already given in line 3: only one would count") as caught:
        read_front_matter(f"---\nname: {name}\n{key}: plan\n{key}: default\n---\n")

    assert caught.value.line == 4


@pytest.mark.parametrize("name", ["x", "a: b"])
@pytest.mark.parametrize(
    "inside", ["  bash: deny\n  bash: allow", "  - {bash: deny,\n bash: allow}", "  a: {bash: 1,\n   bash: 2}"]
)
def test_refuses_what_an_object_has_twice(name: str, inside: str) -> None:
    with pytest.raises(AgentFileError, match="'bash' was already given in line 4: only one would count") as caught:
        read_front_matter(f"---\nname: {name}\npermission:\n{inside}\n---\n")

    assert caught.value.line == 5
