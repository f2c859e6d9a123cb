"""Arguments of tools, as a model gives them: checked and turned into what the function takes, or told what is wrong."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pydantic import BaseModel, ValidationError

from ekiden.shared.errors import ToolError
from ekiden.shared.schemas import problems

__all__ = ["Parse", "by_model", "by_schema", "shortened"]

Parse = Callable[[Any], Any]
"""Returns what the function takes; raises ``ToolError`` with a text that helps the model mend its call."""

_MAX_PROBLEMS = 10
_MAX_INPUT_CHARS = 60


def by_model(name: str, arguments: type[BaseModel]) -> Parse:
    """Return what makes an object of ``arguments`` for the tool ``name``."""
    return partial(_validated, name, arguments)


def by_schema(name: str, schema: Mapping[str, Any]) -> Parse:
    """Return what checks arguments of the tool ``name`` by a JSON Schema, and leaves them as they are."""
    return partial(_checked, name, schema)


def _validated(name: str, arguments: type[BaseModel], args: Any) -> BaseModel:
    try:
        return arguments.model_validate(args)
    except ValidationError as error:
        raise ToolError(_explained(name, arguments, args, error)) from error


def _checked(name: str, schema: Mapping[str, Any], args: Any) -> Any:
    if found := problems(args, schema):
        raise ToolError("\n".join([_opening(name), *(f"- {problem}" for problem in found)]))
    return args


def _opening(name: str) -> str:
    return f"the arguments of {name!r} are not valid:"


def _explained(name: str, arguments: type[BaseModel], args: Any, error: ValidationError) -> str:
    fields = {field.alias or name: field for name, field in arguments.model_fields.items()}
    lines = [_opening(name)]
    if isinstance(args, dict):
        lines += [_problem(problem) for problem in error.errors(include_url=False)[:_MAX_PROBLEMS]]
        lines += [f"- {name}: not an argument of this tool" for name in args if name not in fields][:_MAX_PROBLEMS]
    else:
        lines.append(f"- expected an object, got {type(args).__name__}")
    wanted = [name if field.is_required() else f"{name} (optional)" for name, field in fields.items()]
    return "\n".join([*lines, f"expected: {', '.join(wanted) or 'no arguments'}"])


def _problem(problem: Any) -> str:
    path = ".".join(map(str, problem["loc"])) or "arguments"
    if problem["type"] == "missing":
        return f"- {path}: is required"
    return f"- {path}: {problem['msg']}, got {shortened(repr(problem['input']), _MAX_INPUT_CHARS)}"


def shortened(text: str, limit: int) -> str:
    """Return the beginning of a text that is too long, and how much of it that is."""
    return text if len(text) <= limit else f"{text[:limit]} (cut: the first {limit:,} of {len(text):,} characters)"
