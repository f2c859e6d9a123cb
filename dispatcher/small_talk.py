"""Greetings, thanks and the like: they are nobody's work. A chat answers them without a job."""

import re
from collections.abc import Sequence

__all__ = ["answer_to"]

_END = r"[\s!.,?~。！？，～…:)]*"
_HELLO = (
    r"(hi|hello|hey|hiya|howdy|good (morning|afternoon|evening))( (there|all|everyone|everybody|team|ekiden))?"
    r"|(你好|您好|大家好|嗨|哈喽|早上好|下午好|晚上好)啊?"
)
_THANKS = r"(many )?(thanks|thank you|thx|cheers)( (a lot|so much|very much|again))?|(多谢|谢谢|感谢)(你|您|啦|了)?"
_BYE = r"(good ?)?bye( bye)?|see you|再见|拜拜"
_WHO = r"(who|what) are you|what can (you|i) do( here)?|how are you|help( me)?|你是谁|你能做什么|你会什么|帮助|怎么用"
_TALK = (
    (_HELLO, "Hello! Say what is to be done, in your own words.", "你好！请直接说要做什么。"),
    (_THANKS, "You are welcome.", "不客气。"),
    (_BYE, "Bye! `exit` or Ctrl-D ends the chat.", "再见！输入 exit 或按 Ctrl-D 结束。"),
    (
        _WHO,
        "This is Ekiden: it takes what you say to the agent whose work it is.",
        "这里是 Ekiden：会把你的话交给合适的智能体。",
    ),
)
_KNOWN = tuple((re.compile(f"(?:{words}){_END}", re.IGNORECASE), english, chinese) for words, english, chinese in _TALK)
_CHINESE = re.compile(r"[\u4e00-\u9fff]")
_LONGEST = 60
_SHOWN = 8


def answer_to(text: str, agents: Sequence[str]) -> str:
    """Return what is said to a line that is small talk and nothing else; empty: it is a request."""
    said = " ".join(text.split())
    found = next((one for one in _KNOWN if len(said) <= _LONGEST and one[0].fullmatch(said)), None)
    if found is None:
        return ""
    _, english, chinese = found
    if not agents:
        return chinese if _CHINESE.search(said) else english
    names = ", ".join([*agents[:_SHOWN], *(["…"] if len(agents) > _SHOWN else [])])
    if _CHINESE.search(said):
        return f"{chinese}这里有：{names}（@名字 指定；/help 列出命令）"
    return f"{english} Here are {names} (@NAME asks one of them; /help lists the commands)."
