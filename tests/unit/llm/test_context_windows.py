import pytest

from ekiden.shared.llm.base import ToolSpec
from ekiden.shared.llm.context_windows import most_tokens_in, tokens_in, tokens_in_tools, tokens_of
from ekiden.shared.messages import Message, TextPart, ToolCall, user_message

ENGLISH = (
    "The dispatcher looks at each request and decides which agent should take it. An agent th"
    "at finds the work is not its own hands it over, with a short reason, to a colleague who "
    "knows more. Nothing is lost when a worker dies in the middle: another one reads the jour"
    "nal and goes on at the step that was not finished, without running a tool twice."
)
CHINESE = (
    "调度器查看每个请求，并决定由哪个智能体来处理。如果某个智能体发现这项工作不属于自己，它会附上简短的理"
    "由，把任务交给更了解情况的同事。工作进程在中途崩溃时不会丢失任何内容：另一个进程读取日志，从尚未完成"
    "的步骤继续执行，不会重复运行工具。"
)
PYTHON = (
    'def transfer(context: HandoffContext, *, max_depth: int = 5) -> Leg:\n    """Return the n'
    'ext leg. Raises HandoffRefused."""\n    if context.depth >= max_depth:\n        raise Hand'
    'offRefused("DEPTH", f"{context.depth} handoffs are enough")\n    for name, value in sorte'
    'd(context.state.items()):\n        log.info("state", key=name, size=len(str(value)))\n    '
    "return Leg(agent=context.to_agent, chain=(*context.chain, context.from_agent))\n"
)
JSON = (
    '{"job": "x3bc67tpxcbdljdj.1", "status": "done", "tokens": 12480, "cost_usd": 0.0132, "ch'
    'ain": ["triage", "billing", "refunds"], "legs": [{"agent": "triage", "turns": 2, "ms": 1'
    '834}, {"agent": "billing", "turns": 5, "ms": 9120, "tools": {"lookup_invoice": 2, "open_'
    'ticket": 1}}], "error": null}'
)


@pytest.mark.parametrize(
    ("text", "counts"), [(ENGLISH, (73, 73)), (CHINESE, (84, 90)), (PYTHON, (104, 103)), (JSON, (122, 121))]
)
def test_an_estimate_is_within_a_quarter_of_what_tokenizers_count(text: str, counts: tuple[int, int]) -> None:
    """The counts: GPT-4o's tokenizer (o200k_base), and Llama 3's."""
    for count in counts:
        assert abs(tokens_of(text) / count - 1) <= 0.25


def test_a_long_text_is_estimated_from_samples_as_well_as_a_short_one() -> None:
    assert abs(tokens_of(ENGLISH * 1_000) / (tokens_of(ENGLISH) * 1_000) - 1) < 0.05


def test_nothing_is_no_token() -> None:
    assert (tokens_of(""), tokens_of("x")) == (0, 1)


def test_text_that_utf_8_cannot_hold_is_estimated_all_the_same() -> None:
    assert tokens_of("\ud800" * 8) == 3


def test_a_message_is_as_much_as_all_its_parts() -> None:
    call = ToolCall(id="c1", name="look", args={"what": ENGLISH}, signature=ENGLISH)
    message = Message(role="model", parts=(TextPart(text=ENGLISH, thought=True), call))
    assert 3 * tokens_of(ENGLISH) < tokens_in(message) < 3 * tokens_of(ENGLISH) + 60
    assert tokens_in(user_message(ENGLISH)) < 100


@pytest.mark.parametrize(
    "text", ["", ENGLISH, CHINESE, PYTHON, JSON, "\x01" * 50, '7a\n"' * 50, "é\u3042" * 50, ENGLISH * 100]
)
def test_no_message_has_more_tokens_than_its_characters_let_it(text: str) -> None:
    said = Message(role="model", parts=(TextPart(text=text, thought=True), TextPart(text=text)), model="a-model-3.5-x")
    called = Message(role="model", parts=(TextPart(text=text), ToolCall(id="c1", name="look", args={"what": text})))
    for message in (said, called, user_message(text, aside=True)):
        assert most_tokens_in(message) >= tokens_in(message)


def test_tools_are_as_much_as_each_of_them() -> None:
    specs = [ToolSpec(name=name, description=ENGLISH, parameters={"type": "object"}) for name in ("a", "b")]
    assert tokens_in_tools(tuple(specs)) == sum(tokens_of(spec.model_dump_json()) for spec in specs)
    assert tokens_in_tools(tuple(specs[:1])) < tokens_in_tools(tuple(specs))
