"""Texts that want to instruct a model in the place of who may: a first look by known turns of phrase, in two languages.

It finds what is said plainly, and no more: who takes pains gets by. What an agent must not do is for rules to say.
"""

import re
from functools import cache
from typing import Any

from ekiden.shared.patterns import raw_pattern

__all__ = ["injected_instructions"]

_OLD = (
    r"(?:(?:all|any|every|each|the|these|those|your|my|our|of|previous|prior|above|preceding|"
    r"earlier|former|original|initial|existing|given|current|system|safety|other|and|or) ){0,6}"
)
_ORDERS = (
    r"(?:instruction|direction|directive|prompt|rule|guideline|command|order|constraint|restriction|"
    r"guardrail|programming|training|safeguard)s?\b"
)
_CN_OLD = (
    r"(?:掉|了|你|您|的|之前|以前|此前|先前|前面|以上|上面|上述|上文|所有|一切|全部|任何|原有|"
    r"原来|原本|已有|系统|安全|给你|收到|给出|这些|那些|和|与|、|其他){1,8}"
)
_CN_ORDERS = r"(?:指令|指示|命令|提示词?|规则|要求|设定|约束|限制|说明|准则|对话|内容)"

_PHRASES: tuple[tuple[str, str], ...] = (
    (
        "to set earlier instructions aside",
        (
            rf"\b(?:ignore|disregard|forget|discard|override|bypass|overlook|neglect|violate|skip|drop|"
            rf"do not follow|don'?t follow|stop following|pay no attention to) {_OLD}{_ORDERS}"
        ),
    ),
    (
        "to set earlier instructions aside",
        (
            r"\b(?:ignore|disregard|forget) (?:everything|all|anything|what(?:ever)?)(?: that)?(?: (?:you|"
            r"i|we|was|were|has|have|had|been|were)){0,3}(?: (?:said|told|written|learned|given|know|"
            r"read|above|before|instructed)){1,3}"
        ),
    ),
    (
        "to set earlier instructions aside",
        (
            rf"(?:请|立即|马上|现在)?(?:忽略|无视|忘记|忘掉|忘了|抛弃|放弃|丢弃|绕过|不要遵守|不再遵守|"
            rf"不要理会|停止遵守|推翻|覆盖){_CN_OLD}{_CN_ORDERS}"
        ),
    ),
    (
        "to set earlier instructions aside",
        (
            r"(?:忘记|忘掉|忘了|忽略|无视)(?:你|您|我)?(?:之前|以前|上面|前面)(?:我|被|他们)?(?:说|告诉|"
            r"教|学|知道)(?:过|到|你|的|会)"
        ),
    ),
    (
        "to be somebody without rules",
        (
            r"\byou are (?:now|no longer|henceforth|from now on) (?:going to (?:be|act as) )?(?:a |an "
            r"|the |in |bound |restricted |limited )?(?:dan\b|developer mode|jailbroken|unrestricted|"
            r"unfiltered|uncensored|evil|free (?:of|from)|by (?:any|your|the)|without (?:any )?(?:rules|"
            r"restrictions|limits|filters))"
        ),
    ),
    (
        "to be somebody without rules",
        (
            r"\b(?:act|behave|respond|answer|pretend|roleplay|role-play|imagine|speak)\b.{0,40}\b(?:as "
            r"if|as though|like|that|as|to be|being)\b.{0,40}\b(?:(?:no|without(?: any)?|not bound by|"
            r"free (?:of|from)) (?:any |your |the |ethical |moral |safety |content )*(?:rules|restrictions|"
            r"limitations|limits|filters?|guidelines|policies|ethics)|unrestricted|unfiltered|uncensored)"
        ),
    ),
    (
        "to be somebody without rules",
        (
            r"\b(?:do anything now|(?:enable|enter|activate|switch to|turn on) (?:the )?(?:developer|"
            r"debug|god|admin|root|sudo|jailbreak|dan|unrestricted) mode|jailbreak (?:mode|prompt|yourself)"
            r")\b"
        ),
    ),
    (
        "to be somebody without rules",
        (
            r"(?:(?:你|您)(?:现在|从现在起|从现在开始|此后|今后)|(?:现在|从现在起|从现在开始|今后)[,，]?(?:你|"
            r"您))(?:是|扮演|就是|将是|变成|成为|进入).{0,12}(?:没有(?:任何)?(?:限制|约束|道德|规则)"
            r"|不受(?:任何)?(?:限制|约束)|无限制|越狱|DAN\b|dan\b|开发者模式)"
        ),
    ),
    (
        "to be somebody without rules",
        r"(?:进入|开启|启用|激活|切换到|打开)(?:了)?(?:越狱|开发者|上帝|管理员|无限制|调试)模式",
    ),
    (
        "to be somebody without rules",
        (
            r"(?:假装|假设|扮演|想象)(?:你|您|自己)?.{0,12}(?:没有|不受|摆脱|无视)(?:任何|一切|所有)"
            r"?(?:的)?(?:限制|约束|规则|道德|审查)"
        ),
    ),
    (
        "to be told what an agent's own instructions are",
        (
            r"\b(?:reveal|print|show|display|output|repeat|leak|expose|tell|give|send|share|paste|quote|"
            r"recite|disclose|dump|write(?: out| down)?)\b(?: (?:me|us|back|out|all|of|the|your|to|exact|"
            r"full|entire|complete|whole|hidden|secret|initial|original|verbatim|contents?|text|word|"
            r"for)){0,8} (?:system|initial|original|hidden|secret|developer|internal) (?:prompt|instructions?|"
            r"message|rules|guidelines|directives?)"
        ),
    ),
    (
        "to be told what an agent's own instructions are",
        (
            r"\b(?:repeat|print|output|recite|write) (?:everything|all(?: of)?(?: the)?(?: text| words)"
            r"?|the (?:text|words)) (?:above|before this|that precedes|preceding)"
        ),
    ),
    (
        "to be told what an agent's own instructions are",
        (
            r"(?:输出|显示|告诉我|告知|透露|打印|重复|泄露|说出|展示|列出|复述|给我|公开|发给我)(?:一下|"
            r"出|你|您|的|全部|完整|所有|原始|隐藏|初始|内部|整个|看看){0,6}(?:系统|初始|原始|内部|隐藏|"
            r"开发者)?(?:提示词|系统提示|系统指令|内部指令|初始指令|系统消息)"
        ),
    ),
    (
        "to keep it from the user",
        (
            r"\b(?:do not|don'?t|never|without) (?:tell|telling|inform|informing|mention|mentioning|"
            r"notify|notifying|alert|alerting|reveal|revealing|show|showing|ask|asking|let)(?: (?:this|"
            r"that|it|any of this|anything))?(?: (?:to|about this to))? (?:the |your )?(?:user|human|"
            r"owner|operator|person|customer)s?\b"
        ),
    ),
    (
        "to keep it from the user",
        (
            r"(?:不要|别|切勿|请勿|无需|不必|不得)(?:再)?(?:告诉|告知|通知|提醒|提示|询问|让)(?:给)?(?:用户|"
            r"使用者|主人|操作员|客户)(?:们)?(?:这|此|知道|任何|关于|本|我|$|[,，。;；!！])"
        ),
    ),
    (
        "to pass for somebody else's words",
        (
            r"<\|(?:im_start|im_end|system|user|assistant|endoftext|begin_of_text|start_header_id|eot_id)"
            r"\|>|\[/?INST\]|<<SYS>>|<start_of_turn>|<end_of_turn>"
        ),
    ),
    (
        "to pass for somebody else's words",
        (
            r"(?:^|\n)\s*(?:#{1,4} ?|\*\*|\[|<)(?:system|assistant|developer|系统)(?:\*\*|\]|>)? ?(?:message|"
            r"prompt|instructions?|override|消息|指令)? ?[:：\]>]"
        ),
    ),
    (
        "to pass for somebody else's words",
        (
            r"\b(?:new|updated|revised|urgent|important|real|actual|additional|following) (?:system "
            r")?(?:instructions?|directives?|orders|commands)(?: (?:for|to) (?:the |you|this )?(?:ai|"
            r"assistant|model|agent|llm|bot)?)? ?(?::|override|supersede|replace)"
        ),
    ),
    (
        "to pass for somebody else's words",
        (
            r"(?:^|\n|[。;；!！])\s*(?:新的|最新|更新后的|真正的|紧急|重要|以下)(?:的)?(?:系统)?(?:指令|"
            r"指示|命令|提示词)(?:如下)?[:：]"
        ),
    ),
)


def injected_instructions(text: str) -> list[str]:
    """Return what a ``plain`` text seems to want of a model, and in which line it says so first."""
    plain = re.sub(r"[^\S\n]+", " ", text).replace("’", "'")
    joined = re.sub(r"\s", " ", plain)  # of the same length: a phrase may go over the end of a line
    first: dict[str, int] = {}
    for aim, pattern, goes_by_lines in _compiled():
        if (found := pattern.search(plain if goes_by_lines else joined)) is not None:
            first[aim] = min(found.start(), first.get(aim, found.start()))
    return [f"it wants {aim} (line {plain.count(chr(10), 0, at) + 1})" for aim, at in first.items()]


@cache
def _compiled() -> list[tuple[str, Any, bool]]:
    return [(aim, raw_pattern(phrase, ignore_case=True), r"\n" in phrase) for aim, phrase in _PHRASES]
