"""Command lines by their parse tree: every simple command in them, and what nobody can tell before they run.

The parser (tree-sitter's grammar of bash) takes some texts otherwise than bash does. So only what is known to be read
alike counts as understood: any other kind of node, a text between nodes, a character that cannot be seen, is a doubt.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from ekiden.shared.policy.word_sets import words

__all__ = ["MOST_BYTES", "MOST_COMMANDS", "Command", "Redirection", "Script", "Word", "script_of"]

MOST_BYTES = 10_000
"""Of a command line that is looked into. The parser takes 0.1 s for the worst of this size."""
MOST_COMMANDS = 300
_MOST_HEREDOCS = 50  # the parser's time grows with their square
_DEEPEST = 40

_STRUCTURE = words(
    "program list pipeline subshell compound_statement negated_command if_statement elif_clause else_clause "
    "while_statement do_group redirected_statement command_substitution comment"
)
"""Nodes that only put commands together."""
_JOINTS = words("; && || | |& & ( ) { } ! $( ` if then elif else fi while until do done") | {"\n"}
_ESCAPED = re.compile(r"\\.")
_UNQUOTED = re.compile(r"[\s;&|<>()`$'\"\\]")
"""What ends a word, or begins something else in it."""
_GLOB = re.compile(r"(?<!\\)(?:\\\\)*[*?\[]")
_BRACES = re.compile(r"\{[^{}]*(,|\.\.)[^{}]*\}")
_DECLARING = ("declaration_command", "unset_command")
_HARMLESS_VARIABLE = re.compile(r"LANG|LC_[A-Z]+|TZ|CI|NO_COLOR|FORCE_COLOR|COLUMNS")


@dataclass(frozen=True)
class Word:
    """One word of a command as bash would read it."""

    text: str
    """Without quotes; up to the first part that only the running shell knows."""
    is_known: bool = True
    """Whether ``text`` is all of it."""
    may_split: bool = False
    """Whether it may become several words, or none."""
    source: str = ""
    """As it stands."""

    @property
    def is_plain_argument(self) -> bool:
        """Whether it cannot turn out to be an option, or several words."""
        return self.is_known or (bool(self.text) and not self.text.startswith("-") and not self.may_split)


@dataclass(frozen=True)
class Command:
    """A simple command: its words, the program's first."""

    words: tuple[Word, ...]

    @property
    def program(self) -> str:
        """Return the name of the program, without its folder; empty where only the running shell knows it."""
        return self.words[0].text.rpartition("/")[2].casefold() if self.words and self.words[0].is_known else ""

    @property
    def texts(self) -> tuple[str, ...]:
        """Return what is known of each word."""
        return tuple(word.text for word in self.words)


@dataclass(frozen=True)
class Redirection:
    """A file that is opened beside what the commands say."""

    target: Word


@dataclass(frozen=True)
class Script:
    """A command line, taken apart.

    Attributes:
        commands: All simple commands, those in substitutions and functions too.
        redirections: Files that it opens, without ``/dev/null``.
        doubts: What might change what its commands do, or have effects of its own; for people.
        hidden: Why there may be commands that are not among ``commands``; for people.
        functions: What it defines: the name, and the programs that the body calls.
    """

    commands: tuple[Command, ...] = ()
    redirections: tuple[Redirection, ...] = ()
    doubts: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    functions: tuple[tuple[str, tuple[str, ...]], ...] = ()


@lru_cache(maxsize=256)
def script_of(text: str) -> Script:
    """Take a command line apart. It never raises, and its cost is bounded."""
    source = text.encode("utf-8", "surrogatepass")
    if len(source) > MOST_BYTES or text.count("<<") > _MOST_HEREDOCS:
        return Script(hidden=(f"it is too long to be looked into: {len(source):,} bytes, at most {MOST_BYTES:,} are",))
    reading = _Reading()
    if strange := next((char for char in text if not char.isprintable() and char not in "\n\t"), ""):
        reading.hidden.append(f"it has a character that cannot be seen: {strange!r}")
    if "\\\n" in text:
        reading.hidden.append("it goes on after a backslash at the end of a line")
    tree = _parser().parse(source)
    if tree.root_node.has_error:
        reading.hidden.append("it is no command line that bash and this parser read alike")
    reading.read(tree.root_node)
    return reading.script


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_bash.language()))


@dataclass
class _Reading:
    commands: list[Command] = field(default_factory=list)
    redirections: list[Redirection] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    functions: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)

    @property
    def script(self) -> Script:
        return Script(
            tuple(self.commands),
            tuple(self.redirections),
            tuple(dict.fromkeys(self.doubts)),
            tuple(dict.fromkeys(self.hidden)),
            tuple(self.functions),
        )

    def read(self, root: Node) -> None:
        """Look at every node, outer ones first, without recursion: texts of others nest as deep as they like."""
        waiting = [(root, 0)]
        while waiting:
            node, depth = waiting.pop()
            if depth > _DEEPEST or len(self.commands) > MOST_COMMANDS:
                self.hidden.append("it has more commands, or deeper ones, than are looked into")
                return
            self._look_at(node)
            waiting += [(child, depth + 1) for child in reversed(node.children)]

    def _look_at(self, node: Node) -> None:
        kind = node.type
        if kind == "command":
            self._take(node)
        elif kind in _DECLARING:
            self.commands.append(Command((Word(_text(node).split()[0]),)))
            self.doubts.append(f"it changes variables: {_shown(node)}")
        elif kind == "variable_assignment":
            self._assignment(node)
        elif kind == "redirected_statement":
            self._redirected(node)
        elif kind == "function_definition":
            self._function(node)
        elif kind == "file_redirect":
            self._redirect(node)
        elif kind in _STRUCTURE:
            self._structure(node)
        elif kind == "word" and _UNQUOTED.search(_ESCAPED.sub("", _text(node))):
            self.hidden.append(f"{_shown(node)} is no single word to bash")
        elif node.is_named and not _is_inside_word(node):
            self.doubts.append(f"{_shown(node)} ({kind.replace('_', ' ')})")

    def _take(self, node: Node) -> None:
        words = [_word(child) for child in node.children if _is_word(child)]
        if any(not child.is_named for child in node.children) or _has_gap(node):
            self.doubts.append(f"{_shown(node)} is not quite understood")
        self._add(words)

    def _add(self, words: list[Word]) -> None:
        if words and not words[0].is_known:
            self.hidden.append(f"which program {words[0].source!r:.60} is, only the running shell knows")
        if words:
            self.commands.append(Command(tuple(words)))

    def _redirected(self, node: Node) -> None:
        """Take what the parser counts among the targets of a redirection for what bash does: words of a command."""
        redirects = [child for child in node.children if child.type == "file_redirect"]
        further = [_word(word) for redirect in redirects for word in _targets(redirect)[1:]]
        if not further:
            return
        self.doubts.append(f"{_shown(node)} has words behind a redirection")
        body = node.child_by_field_name("body")
        before = [_word(child) for child in body.children if _is_word(child)] if body and body.type == "command" else []
        self._add([*before, *further])
        self._add(further)  # what stands before may be the number of a file, not a program

    def _redirect(self, node: Node) -> None:
        for target in _targets(node)[:1]:
            word = _word(target)
            harmless = ("0", "1", "2") if _operator(node) in (">&", "<&") else ("/dev/null",)
            if not word.is_known or word.text not in harmless:
                self.redirections.append(Redirection(word))

    def _assignment(self, node: Node) -> None:
        name = _text(node.children[0])
        value = node.child_by_field_name("value")
        is_literal = value is None or (value.type in ("word", "number", "raw_string") and _word(value).is_known)
        if not (_HARMLESS_VARIABLE.fullmatch(name) and is_literal):
            self.doubts.append(f"it sets the variable {name!r:.40}")

    def _function(self, node: Node) -> None:
        name = node.child_by_field_name("name")
        called = tuple(_text(one) for one in _within(node) if one.type == "command_name")
        self.functions.append((_text(name) if name else "", called))
        self.doubts.append(f"it defines the function {_text(name) if name else ''!r:.40}")

    def _structure(self, node: Node) -> None:
        strange = [child for child in node.children if not child.is_named and child.type.strip(" ") not in _JOINTS]
        if strange or _has_gap(node):
            self.doubts.append(f"{_shown(node)} is not quite understood")


_WORDS = words(
    "command_name word string raw_string number concatenation ansi_c_string translated_string simple_expansion "
    "expansion command_substitution arithmetic_expansion process_substitution brace_expression extglob_pattern regex "
    "variable_name special_variable_name string_content subscript array"
)


def _is_word(node: Node) -> bool:
    return node.type in _WORDS


def _is_inside_word(node: Node) -> bool:
    """Tell whether the node is part of a word, which says itself what is not known of it."""
    return _is_word(node) or node.type in ("file_descriptor", "variable_assignments")


def _targets(redirect: Node) -> list[Node]:
    return [child for child in redirect.children if child.is_named and child.type != "file_descriptor"]


def _operator(redirect: Node) -> str:
    return next((child.type for child in redirect.children if not child.is_named), "")


def _within(node: Node) -> Iterator[Node]:
    waiting = list(node.children)
    while waiting:
        one = waiting.pop()
        yield one
        waiting += one.children


def _has_gap(node: Node) -> bool:
    """Tell whether something other than blanks stands between the parts of a node."""
    source = node.text or b""
    end = node.start_byte
    for child in node.children:
        if source[end - node.start_byte : child.start_byte - node.start_byte].strip(b" \t\n"):
            return True
        end = child.end_byte
    return bool(node.children and source[end - node.start_byte :].strip(b" \t\n"))


def _word(node: Node) -> Word:
    source = _text(node)
    text, is_known, may_split = "", True, False
    for part in _parts(node):
        known, splits = _part(part)
        if is_known:
            text += known if known is not None else _glob_prefix(part)
        is_known, may_split = is_known and known is not None, may_split or splits
    braces = _BRACES.search(source) if node.type not in ("raw_string", "string") else None
    if braces is not None:
        return Word("", False, True, source)
    return Word(text, is_known, may_split, source)


def _parts(node: Node) -> list[Node]:
    """Return what a word is put together of."""
    if node.type == "command_name" and node.children:
        return _parts(node.children[0])
    return list(node.children) if node.type == "concatenation" else [node]


def _part(node: Node) -> tuple[str | None, bool]:
    """Return what bash makes of a part of a word, None where only the running shell knows; whether it may be split."""
    source = _text(node)
    match node.type:
        case "word" | "number" if not node.children:
            # All that a glob becomes begins with what stands before it.
            return (None, False) if _GLOB.search(source) else (re.sub(r"\\(.)", r"\1", source), False)
        case "raw_string":
            return source[1:-1], False
        case "string":
            return _quoted(node)
        case "ansi_c_string":
            return None, False
        case _:
            return None, True


def _quoted(node: Node) -> tuple[str | None, bool]:
    source = _text(node)
    inner = [child for child in node.children if child.type not in ('"', "string_content")]
    if inner:
        return None, any(re.search(r"[@*]", _text(child)) for child in inner)
    return re.sub(r'\\([\\"$`])', r"\1", source[1:-1]), False


def _glob_prefix(node: Node) -> str:
    """Return what stands in front of the first part that is not known."""
    if node.type == "string":
        first = next(child for child in node.children if child.type not in ('"', "string_content"))
        raw = (node.text or b"")[1 : first.start_byte - node.start_byte].decode("utf-8", "replace")
        return re.sub(r'\\([\\"$`])', r"\1", raw)
    found = _GLOB.search(_text(node)) if node.type == "word" else None
    return re.sub(r"\\(.)", r"\1", _text(node)[: found.end() - 1]) if found else ""


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def _shown(node: Node) -> str:
    return f"{_text(node)!r:.60}"
