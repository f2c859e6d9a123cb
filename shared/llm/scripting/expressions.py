"""The little language of ``let``, ``if`` and ``${…}`` in scripts: Python expressions without anything dangerous.

Names, literals, lists, ``a.b``, ``a[i]``, ``f(x)`` with the functions of a table, comparisons, ``and``, ``or``,
``not``, ``+`` and ``-``. Looking up what is not there (a missing key, an index past the end, an attribute of None)
gives None, so that a script can ask ``if: results.tests`` before there is a result.
"""

import ast
import operator
import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

__all__ = ["Expression", "expressions_in", "render"]

_MAX_LENGTH = 1_000
_MAX_VALUE = 1_000_000
_PLACEHOLDER = re.compile(r"\$\{([^{}]+)\}")
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
_ALLOWED = (ast.Name, ast.Constant, ast.List, ast.Attribute, ast.Subscript, ast.Call, ast.Compare, ast.BoolOp)
_ALLOWED_OPERATORS = (ast.UnaryOp, ast.BinOp, ast.boolop, ast.cmpop, ast.Not, ast.USub, ast.Add, ast.Sub, ast.Load)


class Expression:
    """One parsed expression. Raises ``ValueError`` for a text that the language does not have."""

    def __init__(self, text: str, functions: Mapping[str, Callable[..., Any]]) -> None:
        self._text = text
        self._functions = functions
        if len(text) > _MAX_LENGTH:
            raise ValueError(f"{text[:60]!r}… has {len(text):,} characters, an expression {_MAX_LENGTH:,} at most")
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, RecursionError, MemoryError) as error:
            raise ValueError(f"{text!r} is not an expression: {error}") from None
        self._check()

    @property
    def names(self) -> set[str]:
        """The variables that it reads."""
        called = {id(node.func) for node in ast.walk(self._tree) if isinstance(node, ast.Call)}
        return {node.id for node in ast.walk(self._tree) if isinstance(node, ast.Name) and id(node) not in called}

    def value(self, scope: Mapping[str, Any]) -> Any:
        """Compute it with the variables of ``scope``."""
        return self._evaluate(self._tree, scope)

    def _check(self) -> None:
        for node in ast.walk(self._tree):
            if not isinstance(node, _ALLOWED + _ALLOWED_OPERATORS):
                raise ValueError(f"{self._text!r} uses {type(node).__name__}, which scripts do not have")
            if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
                raise ValueError(f"{self._text!r} reads {node.attr!r}: names with an underscore in front are private")
            if isinstance(node, ast.Call):
                self._check_call(node)

    def _check_call(self, node: ast.Call) -> None:
        if not isinstance(node.func, ast.Name) or node.keywords or node.func.id not in self._functions:
            known = ", ".join(sorted(self._functions))
            raise ValueError(f"{self._text!r} calls {ast.unparse(node.func)!r}; the functions of scripts are {known}")

    def _evaluate(self, node: ast.AST, scope: Mapping[str, Any]) -> Any:
        def value(part: ast.AST) -> Any:
            return self._evaluate(part, scope)

        match node:
            case ast.Constant():
                return node.value
            case ast.Name():
                return scope[node.id]
            case ast.List():
                return [value(item) for item in node.elts]
            case ast.Attribute() | ast.Subscript():
                return _look_up(value(node.value), node.attr if isinstance(node, ast.Attribute) else value(node.slice))
            case ast.Call():
                assert isinstance(node.func, ast.Name)
                return self._functions[node.func.id](*[value(argument) for argument in node.args])
            case _:
                return _operate(node, value)


def expressions_in(template: Any, functions: Mapping[str, Callable[..., Any]]) -> list[Expression]:
    """Return the expressions in all ``${…}`` of a text, or of the texts in nested lists and maps."""
    if isinstance(template, str):
        return [Expression(found, functions) for found in _PLACEHOLDER.findall(template)]
    inside = template.values() if isinstance(template, dict) else template if isinstance(template, list) else ()
    return [expression for item in inside for expression in expressions_in(item, functions)]


def render(
    template: Any,
    scope: Mapping[str, Any],
    functions: Mapping[str, Callable[..., Any]],
    quote: Callable[[str], str] = str,
) -> Any:
    """Fill in every ``${…}``. A text that is nothing but one placeholder gives the value itself, not its text."""
    if isinstance(template, dict):
        return {key: render(item, scope, functions, quote) for key, item in template.items()}
    if isinstance(template, list):
        return [render(item, scope, functions, quote) for item in template]
    if not isinstance(template, str):
        return template
    if quote is str and (whole := _PLACEHOLDER.fullmatch(template.strip())):
        return Expression(whole[1], functions).value(scope)
    return _PLACEHOLDER.sub(lambda found: quote(_shown(Expression(found[1], functions).value(scope))), template)


def _shown(value: Any) -> str:
    return "" if value is None else str(value)


def _look_up(owner: Any, key: Any) -> Any:
    if isinstance(owner, Mapping):
        return owner.get(key)
    if isinstance(key, str):
        return getattr(owner, key, None)
    try:
        return owner[key]
    except (IndexError, TypeError):
        return None


def _added(left: Any, right: Any) -> Any:
    for one in (left, right):
        if isinstance(one, str | list) and len(one) > _MAX_VALUE:
            raise ValueError(f"a text or list in a script may have {_MAX_VALUE:,} entries at most")
    return left + right


def _operate(node: ast.AST, value: Callable[[ast.AST], Any]) -> Any:
    match node:
        case ast.BoolOp(op=ast.And()):
            return all(value(item) for item in node.values)
        case ast.BoolOp():
            return next((found for item in node.values if (found := value(item))), None)
        case ast.UnaryOp(op=ast.Not()):
            return not value(node.operand)
        case ast.UnaryOp():
            return -value(node.operand)
        case ast.BinOp(op=ast.Add()):
            return _added(value(node.left), value(node.right))
        case ast.BinOp():
            return value(node.left) - value(node.right)
    assert isinstance(node, ast.Compare)
    items = [value(node.left), *map(value, node.comparators)]
    return all(_COMPARE[type(test)](*pair) for test, pair in zip(node.ops, pairwise(items), strict=True))
