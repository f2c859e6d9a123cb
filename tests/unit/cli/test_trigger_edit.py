"""Keywords and examples put into agent files: the least text, and nothing else is touched."""

import pytest

from ekiden.dispatcher.cli.agents.trigger_edit import as_yaml, with_triggers
from ekiden.shared.errors import InvalidRequest

ADDED = {"keywords": ["bill"], "examples": ['where is "it": # my bill?', "发票在哪里"]}
HEAD = "---\nname: billing # the team's\ndescription: Sends bills."
BODY = "---\n\n# Work\n\n---\nno fence\n"
BLOCK = """\
triggers:
  keywords:
    - "bill"
  examples:
    - "where is \\"it\\": # my bill?"
    - "发票在哪里"
"""


def edited(triggers: str) -> str:
    """The front matter behind what is the same in all of them."""
    text = with_triggers(f"{HEAD}\n{triggers}{BODY}", ADDED)
    assert text.startswith(f"{HEAD}\n")
    assert text.endswith(BODY)
    return text[len(HEAD) + 1 : -len(BODY)]


def test_a_file_without_triggers_gets_a_block() -> None:
    assert edited("tools: [ls]  # and no more\n") == f"tools: [ls]  # and no more\n{BLOCK}"
    assert as_yaml(ADDED) == BLOCK


FORMS = {
    "blocks": """triggers:
  # found by
  keywords:
  - invoice  # old
+ - "bill"

  examples:
  - x
+ - "where is \\"it\\": # my bill?"
+ - "发票在哪里"
  priority: 7
tools: []
""",
    "neither list": """triggers:
  priority: 7 # high
+ keywords:
+   - "bill"
+ examples:
+   - "where is \\"it\\": # my bill?"
+   - "发票在哪里"
# the end
""",
    "folded": """triggers:
  examples:
    - >-
      long
      text
+   - "where is \\"it\\": # my bill?"
+   - "发票在哪里"
  keywords:
    - |
      a
+   - "bill"
""",
}
FLOWS = {
    "triggers: {}": 'triggers: {keywords: ["bill"], examples: ["where is \\"it\\": # my bill?", "发票在哪里"]}',
    "triggers: {keywords: [a, b,], examples: []}": (
        'triggers: {keywords: [a, b,"bill"], examples: ["where is \\"it\\": # my bill?", "发票在哪里"]}'
    ),
    "triggers:\n  examples: [\n    x # one\n  ]\n  keywords: [a, # one\n  ]": (
        'triggers:\n  examples: [\n    x # one\n  , "where is \\"it\\": # my bill?", "发票在哪里"]\n'
        '  keywords: [a, # one\n  "bill"]'
    ),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_what_is_there_stays_and_what_is_new_comes_behind_it(form: str) -> None:
    before = "".join(line for line in form.splitlines(keepends=True) if not line.startswith("+"))

    assert edited(before) == form.replace("\n+", "\n ")


@pytest.mark.parametrize("before", FLOWS)
def test_lists_in_brackets_stay_in_brackets(before: str) -> None:
    assert edited(f"{before}\n") == f"{FLOWS[before]}\n"


@pytest.mark.parametrize(
    "triggers",
    ["triggers: [{intent: x, keywords: [a]}]\n", "triggers:\n  examples: just one\n", "triggers: &t\n"],
)
def test_what_cannot_be_changed_so_is_left_to_its_author(triggers: str) -> None:
    with pytest.raises(InvalidRequest, match="put in what is suggested yourself"):
        edited(triggers)


def test_a_file_that_only_the_lenient_reading_takes_gets_a_block_too() -> None:
    text = with_triggers("---\nname: a\ndescription: Use for: bills\n---\nx\n", {"keywords": ["bill"], "examples": []})

    assert text == '---\nname: a\ndescription: Use for: bills\ntriggers:\n  keywords:\n    - "bill"\n---\nx\n'
