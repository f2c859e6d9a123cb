"""Conditions of agent files: CEL expressions over ``state``, ``output`` and ``task``, run in a sandbox.

The expressions are run by Google's CEL: at most 10,000 steps of ``all``, ``exists``, ``exists_one`` and ``filter``,
nested ones counted together, at most 32 levels of nesting, regular expressions by RE2. What it leaves open is closed
here: no ``map``, which could build lists without end, a bound on what an expression may look at, and one on what it
costs, which is told before it is run (``condition_costs``): nothing could stop it then.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from ekiden.shared.condition_costs import UNITS_A_STEP, cost_of
from ekiden.shared.errors import ConditionFailed, DefinitionError, TooCostly
from ekiden.shared.step_limits import limited, spend

__all__ = ["VARIABLES", "Condition"]

VARIABLES = ("output", "state", "task")
"""All that an expression may name: the answer or output, the session's variables, the job."""
MAX_LENGTH = 1_000
"""Characters of an expression."""
MAX_DEPTH = 64
"""Levels of a value. CEL's own conversion has no bound and would overflow the stack."""
MAX_ENTRIES = 2_000
"""Entries of the lists and objects that an expression looks at, together."""
MAX_TEXT = 100_000
"""Characters of the texts that an expression looks at, together."""
MAX_COST = 500_000
"""Units of ``condition_costs``: 10 to 60 ms, during which nothing else runs in the process."""

_ENVIRONMENT = f"""
name: condition
stdlib: {{exclude_macros: [map]}}
variables: [{", ".join(f"{{name: {name}, type_name: dyn}}" for name in VARIABLES)}]
"""
_ERROR = re.compile(r"ERROR: <input>:(-?\d+):(-?\d+): (.*)")
_HINTS = (
    (re.compile(r"[!=]=="), "CEL compares with '==' and '!='"),
    (re.compile(r"(?<![=!<>])=(?!=)"), "CEL compares with '=='"),
    (re.compile(r"\b(and|or|not)\b"), "CEL writes '&&', '||' and '!'"),
    (re.compile(r"\.map\s*\("), "'map' does not exist here; 'exists', 'all' and 'filter' do"),
)
_TEXT = re.compile(r"'[^']*'|\"[^\"]*\"")


@dataclass(frozen=True)
class Condition:
    """An expression that is true or false of a job's variables. Make one with ``parse``."""

    text: str

    @classmethod
    def parse(cls, text: str) -> "Condition":
        """Return the condition that ``text`` says.

        Raises:
            DefinitionError: it is too long, is not CEL, is never true or false, costs too much even with little to look
                at, or names something else than ``VARIABLES``; with the place, where CEL knows it.
        """
        if len(text) > MAX_LENGTH:
            raise DefinitionError(f"a condition has at most {MAX_LENGTH:,} characters, this one has {len(text):,}")
        _compiled(text)
        return cls(text)

    def holds(self, variables: Mapping[str, Any]) -> bool:
        """Tell whether the condition is true of ``variables`` (JSON values, by the names of ``VARIABLES``).

        Raises:
            ConditionFailed: it cannot be told, or costs too much with these values, or what comes out is neither true
                nor false. A key that an object does not have is such an error; ``has(state.ready)`` asks for it.
            TooCostly: where there is a second try with more, see ``allowance.aside``.
        """
        looked_at = {name: variables[name] for name in VARIABLES if name in variables and name in self.text}
        _check_size(looked_at)
        expression, serialised = _compiled(self.text)
        self._pay(cost_of(serialised, looked_at))
        try:
            result = expression.eval(data=looked_at)
            value = result.plain_value()
        except Exception as error:  # the binding raises RuntimeError, ValueError, MemoryError, ... as it comes
            raise ConditionFailed(f"condition {self.text!r}: {_first_line(error)}") from None
        if result.type().name() == "BOOL":
            return bool(value)
        if result.type().name() in ("ERROR", "UNKNOWN"):
            raise ConditionFailed(f"condition {self.text!r}: {_first_line(value)}")
        raise ConditionFailed(f"condition {self.text!r} is {_shown(value)}, which is neither true nor false")

    def _pay(self, cost: int) -> None:
        said = f"condition {self.text!r} costs too much with what it looks at: use fewer loops, or look at less"
        if cost > MAX_COST:
            raise ConditionFailed(said)
        with limited() as allowance:
            try:
                spend(1 + cost // UNITS_A_STEP)
            except TooCostly:
                if not allowance.is_final:
                    raise
                raise ConditionFailed(said) from None


@lru_cache(maxsize=1024)
def _compiled(text: str) -> tuple[Any, bytes]:
    """Return the expression, and how CEL writes it down."""
    try:
        expression = _environment().compile(text)
    except Exception as error:  # the binding raises RuntimeError, UnicodeEncodeError, ... as it comes
        raise DefinitionError(f"condition {text!r} cannot be read as CEL: {_reason(text, error)}") from None
    kind = expression.return_type().name()
    if kind not in ("BOOL", "DYN"):
        raise DefinitionError(f"condition {text!r} must be true or false; it is of type {kind.lower()}")
    serialised = expression.serialize()
    try:
        cost = cost_of(serialised)
    except DefinitionError as error:
        raise DefinitionError(f"condition {text!r}: {error}") from None
    if cost > MAX_COST:
        raise DefinitionError(f"condition {text!r} costs too much, even with little to look at: use fewer loops in it")
    return expression, serialised


@cache
def _environment() -> Any:
    from cel_expr_python import cel

    return cel.NewEnv(config=cel.NewEnvConfigFromYaml(_ENVIRONMENT))


def _reason(text: str, error: Exception) -> str:
    """Return what CEL says of the first fault and where, and what is meant instead if that is known."""
    match = _ERROR.search(str(error))
    place = f" (line {match[1]}, column {match[2]})" if match and match[1].isdecimal() else ""
    said = match[3] if match else _first_line(error)
    outside = _TEXT.sub("''", text)
    hint = next((hint for pattern, hint in _HINTS if pattern.search(outside)), "")
    if not hint and (unknown := re.search(r"undeclared reference to '([\w.]+)'", said)):
        said, hint = f"{unknown[1]!r} is unknown", f"The variables are {', '.join(VARIABLES)}"
    return said.split(" expecting {")[0] + place + (f". {hint}" if hint else "")


def _first_line(said: object) -> str:
    return str(said).split("\n")[0].split(": ", 1)[-1]


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _check_size(variables: Mapping[str, Any]) -> None:
    texts = 0
    for entries, value in enumerate(_inside(variables, MAX_DEPTH), start=1):
        texts += len(value) if isinstance(value, str) else 0
        if entries > MAX_ENTRIES or texts > MAX_TEXT:
            raise ConditionFailed(
                f"{', '.join(variables)}: too large for a condition, which looks at no more than {MAX_ENTRIES:,} "
                f"entries and {MAX_TEXT:,} characters"
            )


def _inside(value: Any, levels: int) -> Iterator[Any]:
    """Yield the values in ``value``, the keys of objects too."""
    if not isinstance(value, Mapping | list | tuple):
        return
    if not levels:
        raise ConditionFailed(f"a value has more than {MAX_DEPTH} levels, too many for a condition")
    if isinstance(value, Mapping):
        yield from value
    for item in value.values() if isinstance(value, Mapping) else value:
        yield item
        yield from _inside(item, levels - 1)
