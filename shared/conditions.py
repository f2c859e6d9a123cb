"""Conditions and values of agent files: CEL expressions over named variables, run in a sandbox.

The expressions are run by Google's CEL: at most 10,000 steps of ``all``, ``exists``, ``exists_one`` and ``filter``,
nested ones counted together, at most 32 levels of nesting, regular expressions by RE2. What it leaves open is closed
here: no ``map``, which could build lists without end, a bound on what an expression may look at, and one on what it
costs, which is told before it is run (``condition_costs``): nothing could stop it then.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Self

from ekiden.shared.condition_costs import UNITS_A_STEP, cost_of
from ekiden.shared.condition_paths import paths_in
from ekiden.shared.errors import ConditionFailed, DefinitionError, TooCostly
from ekiden.shared.step_limits import limited, spend
from ekiden.shared.suggestions import nearest

__all__ = ["VARIABLES", "Condition", "Expression", "is_identifier", "names_in"]

VARIABLES = ("output", "state", "task")
"""All that a handoff's condition may name: the answer or output, the session's variables, the job."""
MAX_LENGTH = 1_000
"""Characters of an expression."""
MAX_DEPTH = 64
"""Levels of a value. CEL's own conversion has no bound and would overflow the stack."""
MAX_ENTRIES = 2_000
"""Entries of the lists and objects that an expression looks at, together."""
MAX_TEXT = 100_000
"""Characters of the texts that an expression looks at, together."""
MOST_OF_VALUES = 20_000, 1_000_000
"""Entries and characters that an expression for a value looks at: a list to go through is longer than what is asked."""
MAX_COST = 500_000
"""Units of ``condition_costs``: 10 to 60 ms, during which nothing else runs in the process."""

_FEW = 12
"""Names that an error tells in full."""
_RESERVED = re.compile(
    "as|break|const|continue|else|false|for|function|if|import|in|let|loop|namespace|null|package|return|true|var|void"
    "|while|bool|bytes|double|dyn|int|list|map|null_type|string|type|uint"
)
_ERROR = re.compile(r"ERROR: <input>:(-?\d+):(-?\d+): (.*)")
_HINTS = (
    (re.compile(r"[!=]=="), "CEL compares with '==' and '!='"),
    (re.compile(r"(?<![=!<>])=(?!=)"), "CEL compares with '=='"),
    (re.compile(r"\b(and|or|not)\b"), "CEL writes '&&', '||' and '!'"),
    (re.compile(r"\b(True|False|None)\b"), "CEL writes 'true', 'false' and 'null'"),
    (
        re.compile(r"[^\x00-\x7f]"),
        'CEL writes names that are not ASCII in brackets and quotes: outputs["分析"]["原因"]',
    ),
    (re.compile(r"\.map\s*\("), "'map' does not exist here; 'exists', 'all' and 'filter' do"),
)
_TEXT = re.compile(r"'[^']*'|\"[^\"]*\"")


@dataclass(frozen=True)
class _Parsed:
    """An expression over the variables ``names``."""

    text: str
    names: tuple[str, ...] = VARIABLES
    kind: ClassVar = "expression"
    largest: ClassVar = (MAX_ENTRIES, MAX_TEXT)

    @classmethod
    def parse(cls, text: str, names: Collection[str] = VARIABLES) -> Self:
        """Return what ``text`` says of variables with these ``names``.

        Raises:
            DefinitionError: it is too long, is not CEL, cannot be of the kind that is asked for, costs too much even
                with little to look at, or names something else than ``names``; with the place, where CEL knows it.
        """
        cls._check_length(text)
        parsed = cls(text, tuple(dict.fromkeys(names)))
        parsed._compiled()
        return parsed

    @classmethod
    def check_syntax(cls, text: str) -> None:
        """Check no more than that ``text`` is CEL, where it is not known yet what it may name. Raises as ``parse``."""
        cls._check_length(text)
        _check_syntax(cls.kind, text)

    @classmethod
    def _check_length(cls, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise DefinitionError(f"a {cls.kind} has at most {MAX_LENGTH:,} characters, this one has {len(text):,}")

    @property
    def paths(self) -> set[tuple[str, ...]]:
        """What it looks at: a variable each, and the names that follow."""
        return paths_in(self._compiled()[1])

    def _compiled(self) -> tuple[Any, bytes]:
        return _compiled(self.kind, self.text, self.names)

    def _evaluated(self, variables: Mapping[str, Any]) -> tuple[str, Any]:
        """Return the type of what comes out, and its value."""
        looked_at = {name: variables[name] for name in self.names if name in variables and name in self.text}
        _check_size(looked_at, self.kind, *self.largest)
        expression, serialised = self._compiled()
        self._pay(cost_of(serialised, looked_at))
        try:
            result = expression.eval(data=looked_at)
            value = result.plain_value()
        except Exception as error:  # the binding raises RuntimeError, ValueError, MemoryError, ... as it comes
            raise ConditionFailed(f"{self.kind} {self.text!r}: {_first_line(error)}") from None
        if result.type().name() in ("ERROR", "UNKNOWN"):
            raise ConditionFailed(f"{self.kind} {self.text!r}: {_first_line(value)}")
        return result.type().name(), value

    def _pay(self, cost: int) -> None:
        said = f"{self.kind} {self.text!r} costs too much with what it looks at: use fewer loops, or look at less"
        if cost > MAX_COST:
            raise ConditionFailed(said)
        with limited() as limit:
            try:
                spend(1 + cost // UNITS_A_STEP)
            except TooCostly:
                if not limit.is_final:
                    raise
                raise ConditionFailed(said) from None


@dataclass(frozen=True)
class Condition(_Parsed):
    """An expression that is true or false of a job's variables. Make one with ``parse``."""

    kind: ClassVar = "condition"

    def holds(self, variables: Mapping[str, Any]) -> bool:
        """Tell whether the condition is true of ``variables`` (JSON values, by name).

        Raises:
            ConditionFailed: it cannot be told, or costs too much with these values, or what comes out is neither true
                nor false. A key that an object does not have is such an error; ``has(state.ready)`` asks for it.
            TooCostly: where there is a second try with more, see ``step_limits.run_limited``.
        """
        kind, value = self._evaluated(variables)
        if kind != "BOOL":
            raise ConditionFailed(f"condition {self.text!r} is {_shown(value)}, which is neither true nor false")
        return bool(value)


@dataclass(frozen=True)
class Expression(_Parsed):
    """An expression for a value, such as a path to it. Make one with ``parse``."""

    largest: ClassVar = MOST_OF_VALUES

    def value(self, variables: Mapping[str, Any]) -> Any:
        """Return the value for ``variables`` (JSON values, by name); it is JSON, too. Raises as ``Condition.holds``."""
        _, value = self._evaluated(variables)
        try:
            return json.loads(json.dumps(value, allow_nan=False, ensure_ascii=False))
        except (TypeError, ValueError, RecursionError):
            raise ConditionFailed(f"expression {self.text!r} is {_shown(value)}, which is no JSON") from None


def is_identifier(name: str) -> bool:
    """Tell whether an expression can name a variable so."""
    return re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is not None and _RESERVED.fullmatch(name) is None


def names_in(text: str) -> list[str]:
    """Return what may be variables in an expression, to show what it looks at."""
    found = re.findall(r"(?<![\w.])[A-Za-z_]\w*(?!\w|\s*\()", _TEXT.sub("''", text))
    return [name for name in dict.fromkeys(found) if is_identifier(name)]


@lru_cache(maxsize=1024)
def _check_syntax(kind: str, text: str) -> None:
    try:
        _environment(()).compile(text, disable_check=True)
    except Exception as error:  # as in ``_compiled``
        raise DefinitionError(f"{kind} {text!r} cannot be read as CEL: {_reason(text, error, ())}") from None


@lru_cache(maxsize=1024)
def _compiled(asked: str, text: str, names: tuple[str, ...]) -> tuple[Any, bytes]:
    """Return the expression, and how CEL writes it down."""
    try:
        expression = _environment(names).compile(text)
    except Exception as error:  # the binding raises RuntimeError, UnicodeEncodeError, ... as it comes
        raise DefinitionError(f"{asked} {text!r} cannot be read as CEL: {_reason(text, error, names)}") from None
    kind = expression.return_type().name()
    if asked == Condition.kind and kind not in ("BOOL", "DYN"):
        raise DefinitionError(f"condition {text!r} must be true or false; it is of type {kind.lower()}")
    serialised = expression.serialize()
    try:
        cost = cost_of(serialised)
    except DefinitionError as error:
        raise DefinitionError(f"{asked} {text!r}: {error}") from None
    if cost > MAX_COST:
        raise DefinitionError(f"{asked} {text!r} costs too much, even with little to look at: use fewer loops in it")
    return expression, serialised


@lru_cache(maxsize=64)
def _environment(names: tuple[str, ...]) -> Any:
    from cel_expr_python import cel

    variables = ", ".join(f"{{name: '{name}', type_name: dyn}}" for name in names)
    text = f"name: condition\nstdlib: {{exclude_macros: [map]}}\nvariables: [{variables}]\n"
    return cel.NewEnv(config=cel.NewEnvConfigFromYaml(text))


def _reason(text: str, error: Exception, names: Collection[str]) -> str:
    """Return what CEL says of the first fault and where, and what is meant instead if that is known."""
    match = _ERROR.search(str(error))
    place = f" (line {match[1]}, column {match[2]})" if match and match[1].isdecimal() else ""
    said = match[3] if match else _first_line(error)
    outside = _TEXT.sub("''", text)
    hint = next((hint for pattern, hint in _HINTS if pattern.search(outside)), "")
    if not hint and (unknown := re.search(r"undeclared reference to '([\w.]+)'", said)):
        said, hint = f"{unknown[1]!r} is unknown", _advice(unknown[1].partition(".")[0], names)
    return said.split(" expecting {")[0] + place + (f". {hint}" if hint else "")


def _advice(name: str, names: Collection[str]) -> str:
    if len(names) <= _FEW:
        return f"The variables are {', '.join(names)}"
    near = nearest(name, names, n=1)
    return f"Did you mean {near[0]!r}?" if near else f"There are {', '.join([*names][:_FEW])} and others"


def _first_line(said: object) -> str:
    return str(said).split("\n")[0].split(": ", 1)[-1]


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _check_size(variables: Mapping[str, Any], kind: str, most_entries: int, most_text: int) -> None:
    texts = 0
    for entries, value in enumerate(_inside(variables, MAX_DEPTH), start=1):
        texts += len(value) if isinstance(value, str) else 0
        if entries > most_entries or texts > most_text:
            raise ConditionFailed(
                f"{', '.join(variables)}: too large for a {kind}, which looks at no more than {most_entries:,} "
                f"entries and {most_text:,} characters"
            )


def _inside(value: Any, levels: int) -> Iterator[Any]:
    """Yield the values in ``value``, the keys of objects too."""
    if not isinstance(value, Mapping | list | tuple):
        return
    if not levels:
        raise ConditionFailed(f"a value has more than {MAX_DEPTH} levels, too many for an expression")
    if isinstance(value, Mapping):
        yield from value
    for item in value.values() if isinstance(value, Mapping) else value:
        yield item
        yield from _inside(item, levels - 1)
