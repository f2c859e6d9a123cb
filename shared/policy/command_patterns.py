"""Patterns of commands: a prefix of words, a whole command, or a text with ``*``."""

import re
from dataclasses import dataclass

from ekiden.shared.errors import DefinitionError
from ekiden.shared.patterns import Pattern, compile_pattern, escaped
from ekiden.shared.policy.shell_starters import inner_command, is_starter, unsafe_option
from ekiden.shared.policy.shell_tree import Command, script_of
from ekiden.shared.policy.word_sets import words

__all__ = ["CommandPattern", "exact_command", "prefix_command", "regex_command", "wildcard_command"]

_CHANGING = words("getopts let printf read set shopt")
"""Builtins that can change what later commands of the same line do."""


@dataclass(frozen=True)
class CommandPattern:
    """What a command must begin with, or be.

    Attributes:
        words: Of a prefix, or of a whole command; empty for an expression.
        is_whole: Whether nothing may follow.
        expression: Looked for in the words, joined by blanks.
        beginning: The text in front of the first wildcard of an expression; None: nobody can say.
        shown: As its author wrote it.
    """

    words: tuple[str, ...] = ()
    is_whole: bool = False
    expression: Pattern | None = None
    beginning: str | None = None
    shown: str = ""

    def may_mean(self, command: Command) -> bool:
        """Tell whether the command is one of those meant, or could turn out to be: for rules that restrict."""
        if not command.words:
            return False
        texts = (command.program, *command.texts[1:])
        if self.expression is not None:
            return self._may_fit(command, texts)
        if self.words[0].rpartition("/")[2].casefold() != command.program:
            return False
        for expected, text, word in zip(self.words[1:], texts[1:], command.words[1:], strict=False):
            if not word.is_known:
                return True
            if text != expected:
                return False
        return len(texts) >= len(self.words) and not (self.is_whole and len(texts) > len(self.words))

    def _may_fit(self, command: Command, texts: tuple[str, ...]) -> bool:
        assert self.expression is not None
        joined = (" ".join(texts), " ".join(command.texts), " ".join(word.source for word in command.words))
        if any(self.expression.search(text.encode("utf-8", "surrogatepass")) for text in joined):
            return True
        place = next((place for place, word in enumerate(command.words) if not word.is_known), None)
        if place is None or self.beginning is None:
            return False
        known = " ".join(texts[: place + 1])
        return known.startswith(self.beginning) or self.beginning.startswith(known)

    def permits(self, command: Command) -> bool:
        """Tell whether the command is certainly one of those meant, and no more: for rules that allow."""
        if not command.words or not all(word.is_plain_argument for word in command.words):
            return False
        named = self._named(command) if command.words[0].is_known else 0
        if named and not unsafe_option(command, named) and not _is_open(command, named):
            return True
        inner = inner_command(command)
        return inner is not None and self.permits(inner)

    def _named(self, command: Command) -> int:
        """Return how many of the words the pattern names; 0: it does not mean the command."""
        if self.expression is not None:
            is_known = all(word.is_known for word in command.words)
            text = " ".join(command.texts).encode("utf-8", "surrogatepass")
            return 1 if is_known and self.expression.search(text) else 0
        begin = tuple(word.text if word.is_known else None for word in command.words[: len(self.words)])
        if begin != self.words or (self.is_whole and len(command.words) > len(self.words)):
            return 0
        return len(self.words)


def _is_open(command: Command, named: int) -> bool:
    """Tell whether a program that starts others, or changes the shell, is named without what it is to do."""
    if named >= len(command.words):
        return False
    if command.program in _CHANGING:
        return True
    said = [text for text in command.texts[1:named] if not text.startswith("-") and "=" not in text]
    return is_starter(command) and not said


def prefix_command(text: str, *, restricts: bool) -> CommandPattern:
    """Return the pattern of all commands whose first words are those of ``text``.

    Raises:
        DefinitionError: nobody can tell which words these are; a rule that restricts takes them as they stand.
    """
    return CommandPattern(_words_of(text, restricts), shown=text)


def exact_command(text: str, *, restricts: bool) -> CommandPattern:
    """Return the pattern of one command. Raises ``DefinitionError`` as ``prefix_command`` does."""
    return CommandPattern(_words_of(text, restricts), is_whole=True, shown=text)


def wildcard_command(text: str) -> CommandPattern:
    """Return the pattern of commands in which ``*`` stands for any text. Raises ``DefinitionError``."""
    parts = re.split(r"\*+", text)
    expression = "(?s:.*)".join(map(escaped, parts))
    if text.endswith(" *") and len(parts) == 2:  # what follows may be missing
        expression = f"{escaped(text[:-2])}(?s: .*)?"
    pattern = compile_pattern(rf"\A(?:{expression})\z", named=text)
    return CommandPattern(expression=pattern, beginning=parts[0], shown=text)


def regex_command(text: str, *, restricts: bool) -> CommandPattern:
    """Return the pattern of commands that begin with what ``text``, an expression of RE2, fits.

    Raises:
        DefinitionError: RE2 cannot read it, or it allows something by the quotes of JSON.
    """
    if '"' in text and not restricts:
        raise DefinitionError(
            f"{text!r:.60} means the JSON round a command, which allows nothing here: leave quotes out"
        )
    end = "" if restricts else r"(?s:\s.*)?\z"
    return CommandPattern(expression=compile_pattern(rf"\A(?:{text}){end}", named=text), shown=text)


def _words_of(text: str, restricts: bool) -> tuple[str, ...]:
    script = script_of(text)
    words = script.commands[0].words if len(script.commands) == 1 else ()
    is_plain = not (script.doubts or script.hidden or script.redirections)
    if words and is_plain and all(word.is_known for word in words):
        return tuple(word.text for word in words)
    if restricts and text.split():
        return tuple(text.split())
    raise DefinitionError(f"{text!r:.60} is not the beginning of one simple command: give its first words, as they are")
