import pytest

from ekiden.shared.definitions.frontmatter import FrontMatter, read_front_matter
from ekiden.shared.definitions.problems import AgentFileError


def read(front: str) -> FrontMatter:
    return read_front_matter(f"---\n{front}\n---\nbody")


def test_a_description_may_go_on_without_being_indented() -> None:
    parts = read("name: x\ndescription: Use it often.\n\nReally, always.\ntools: [Read]\nmodel: opus")

    assert parts.fields == {
        "name": "x",
        "description": "Use it often.\n\nReally, always.",
        "tools": ["Read"],
        "model": "opus",
    }
    assert [line for line, _ in parts.warnings] == [3]


def test_dialogue_in_a_description_is_no_field() -> None:
    example = (
        'Use this agent: it helps.\nExamples:\n<example>\nContext: A bug.\nuser: "Fix it"\nassistant: "I will"\n'
        "reply: yes\n</example>"
    )

    parts = read(f"name: x\ndescription: {example}\ncolor: red\nmodel: sonnet")

    assert parts.fields == {"name": "x", "description": example, "color": "red", "model": "sonnet"}


def test_dialogue_that_is_yaml_by_itself_is_no_field_either() -> None:
    parts = read("name: a: b\ndescription: Use it.\nContext: A bug.\nuser: Fix it.\nmodel: y")

    assert parts.fields["description"] == "Use it.\nContext: A bug.\nuser: Fix it."


def test_a_key_that_yaml_takes_for_more_than_a_word_is_kept() -> None:
    assert read("name: a: b\non: push\ndescription: d").fields == {"name": "a: b", "on": "push", "description": "d"}


def test_a_field_that_nobody_knows_ends_a_description_all_the_same() -> None:
    assert read("name: x\ndescription: a: b\nemoji: y").fields["emoji"] == "y"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ('"Quoted" and: more', '"Quoted" and: more'),
        ("|\nnot indented, at all", "not indented, at all"),
        ("\nbegins on the next line", "begins on the next line"),
    ],
)
def test_a_description_is_text_however_it_begins(value: str, said: str) -> None:
    assert read(f"name: x\ndescription: {value}\nmodel: y").fields["description"] == said


def test_tabs_are_read_as_spaces_with_one_warning() -> None:
    parts = read("name: x\nlimits:\n\tmax_turns: 5\n\tmax_seconds: 60")

    assert parts.fields["limits"] == {"max_turns": 5, "max_seconds": 60}
    [(line, text)] = parts.warnings
    assert line == 4
    assert "tabs" in text


def test_a_key_given_twice_is_told_in_the_second_try_too() -> None:
    parts = read("name: x\ndescription: a: b\nname: y")

    assert parts.fields["name"] == "y"
    assert (4, "'name' was already given in line 2; this one counts") in parts.warnings


@pytest.mark.parametrize("value", ["[Read, Grep", "{allow: [x", "&a b: c", '"Read, "Grep"', "\n  - a: [\n  - b"])
def test_what_is_meant_as_structure_is_never_read_as_text(value: str) -> None:
    with pytest.raises(AgentFileError, match="not valid YAML"):
        read(f"name: x\ndescription: d\ntools: {value}")


@pytest.mark.parametrize("tag", ["!!python/object/apply:os.getcwd []", "!!python/name:os.system", "!custom x"])
def test_a_tag_is_refused_in_the_second_try_too(tag: str) -> None:
    with pytest.raises(AgentFileError, match="could not determine a constructor") as caught:
        read(f"name: a: b\ndescription: {tag}")

    assert caught.value.line == 3


def test_a_bomb_in_one_entry_is_refused_in_the_second_try_too() -> None:
    with pytest.raises(AgentFileError, match="YAML aliases"):
        read(f"name: a: b\nbomb: [&a [x], {', '.join(['*a'] * 21)}]")


@pytest.mark.parametrize(
    "before", ["Use it when: x: y", "Use it: so.\n<example>\nContext: a: b", "|\nnot indented: at all"]
)
@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("Permission: {bash: deny}", "Permission", {"bash": "deny"}),
        ("readOnly: true", "readOnly", True),
        ("permission-mode: plan", "permission-mode", "plan"),
        ("Sandbox: read-only", "Sandbox", "read-only"),
        ("mode: plan", "mode", "plan"),
        ("Max-Turns: 2", "Max-Turns", 2),
        ("disallowed tools: Bash", "disallowed tools", "Bash"),
        ("disallowedTools : Bash", "disallowedTools", "Bash"),
        ("disallowedTools:Bash", "disallowedTools", "Bash"),
        ("'Disallowed-Tools': [Bash]", "Disallowed-Tools", ["Bash"]),
        ("Approval_Policy: always", "Approval_Policy", "always"),
        ("Bash: false", "Bash", False),
        ("canWrite: no", "canWrite", False),
    ],
)
def test_what_restricts_is_a_field_and_never_lost_in_a_description(
    before: str, line: str, key: str, value: object
) -> None:
    fields = read(f"name: x\ndescription: {before}\n{line}\ntools: Bash, Read").fields

    assert fields[key] == value
    assert line not in fields["description"]
    assert fields["tools"] == "Bash, Read"


def test_what_restricts_is_not_lost_in_a_list_of_tools_either() -> None:
    assert read("name: x\ntools: Bash, Read\ndisallowedTools:Bash").fields["disallowedTools"] == "Bash"
