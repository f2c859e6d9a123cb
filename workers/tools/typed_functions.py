"""What a model must give to call a typed function: its arguments' model, made of its signature and its docstring."""

import inspect
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from docstring_parser import DocstringStyle, ParseError, parse
from pydantic import BaseModel, Field, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo

from ekiden.shared.errors import DefinitionError

__all__ = ["TypedFunction", "typed"]

_FIELD = "argument_"
"""Before a parameter's name: a model has attributes of its own, such as ``copy`` and ``json``."""


@dataclass(frozen=True)
class TypedFunction:
    """A function as a tool."""

    function: Callable[..., Any]
    description: str
    arguments: type[BaseModel]
    """Its parameters but the one for the context; their names are aliases."""
    context: str
    """The parameter that takes the context; empty: none does."""

    @property
    def as_tool(self) -> Callable[[Any, Any], Any]:
        """The function that takes an object of ``arguments`` and a context, a coroutine function like the original."""
        if not inspect.iscoroutinefunction(self.function):
            return lambda args, context: self.function(**self._named(args, context))

        async def call(args: BaseModel, context: Any) -> Any:
            return await self.function(**self._named(args, context))

        return call

    def _named(self, args: BaseModel, context: Any) -> dict[str, Any]:
        given = {name.removeprefix(_FIELD): getattr(args, name) for name in type(args).model_fields}
        return given | ({self.context: context} if self.context else {})


def typed(function: Callable[..., Any], context_type: type, returned: tuple[type, ...]) -> TypedFunction:
    """Read a function's signature and docstring.

    The docstring's first part is the tool's description; its ``Args:``, in Google's style, describe the parameters.

    Raises:
        DefinitionError: a parameter cannot be given by name, has no type, or none that JSON can say; or the function
            says that it gives back what is none of the types ``returned``.
    """
    name = function.__name__
    types = _types(function)
    _check_returned(name, types.get("return", Any), returned)
    said = _docstring(function)
    of_parameters = {one.arg_name: one.description or "" for one in said.params}
    fields: dict[str, Any] = {}
    context = ""
    for parameter in _parameters(function):
        if parameter.name not in types:
            raise DefinitionError(
                f"tool {name!r}: its parameter {parameter.name!r} has no type: write `{parameter.name}: str`, or what "
                f"else it is; the one that takes the context is `{parameter.name}: ToolContext`"
            )
        if isinstance(kind := types[parameter.name], type) and issubclass(kind, context_type):
            context = parameter.name
        else:
            fields[_FIELD + parameter.name] = _field(parameter, kind, of_parameters.get(parameter.name))
    if strange := sorted(of_parameters.keys() - types.keys()):
        raise DefinitionError(f"tool {name!r}: its docstring describes {strange[0]!r}, which is none of its parameters")
    return TypedFunction(function, said.description or "", _model(name, fields), context)


def _check_returned(name: str, said: Any, returned: tuple[type, ...]) -> None:
    for kind in get_args(said) if get_origin(said) in (Union, UnionType) else (said,):
        plain = get_origin(kind) or kind
        if isinstance(plain, type) and plain not in (object, Any) and not issubclass(plain, (*returned, Awaitable)):
            shown = "None" if plain is type(None) else plain.__name__
            raise DefinitionError(
                f"tool {name!r}: it gives back {shown}: a tool returns text, or `ToolOutput(text, data=…)` with a "
                "list, an object or a number as data (`from ekiden import ToolOutput`); write "
                "`-> str` or `-> ToolOutput`"
            )


def _parameters(function: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    """Yield the parameters. Raises ``DefinitionError`` for one that nobody can give by its name."""
    remedies = {
        inspect.Parameter.VAR_POSITIONAL: "name each argument, or take one list",
        inspect.Parameter.VAR_KEYWORD: "name each argument, or take one dict",
        inspect.Parameter.POSITIONAL_ONLY: "leave out the '/' behind it: a model gives arguments by name",
    }
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in remedies:
            shown = str(parameter).partition(":")[0]
            raise DefinitionError(
                f"tool {function.__name__!r}: a model cannot give its parameter {shown!r}: {remedies[parameter.kind]}"
            )
        yield parameter


def _types(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise DefinitionError(
            f"tool {function.__name__!r}: the types of its parameters cannot be read ({error}): import what they name"
        ) from error


def _docstring(function: Callable[..., Any]) -> Any:
    text = inspect.getdoc(function) or ""
    try:
        return parse(text, DocstringStyle.GOOGLE)
    except ParseError as error:
        raise DefinitionError(f"tool {function.__name__!r}: its docstring cannot be read: {error}") from error


def _field(parameter: inspect.Parameter, kind: Any, description: str | None) -> tuple[Any, Any]:
    """Return what pydantic takes for a field; a default may be a ``Field`` of pydantic's as well."""
    default = ... if parameter.default is inspect.Parameter.empty else parameter.default
    if isinstance(default, FieldInfo):
        kind, default = Annotated[kind, default], default.get_default(call_default_factory=False)
    if description:
        kind = Annotated[kind, Field(description=description)]
    return kind, Field(default, alias=parameter.name)


def _model(name: str, fields: dict[str, Any]) -> type[BaseModel]:
    try:
        model: type[BaseModel] = create_model(name, **fields)
        model.model_json_schema()
    except PydanticUserError as error:
        raise DefinitionError(
            f"tool {name!r}: a parameter has a type that JSON cannot say ({error.message.splitlines()[0]}): "
            "use str, int, float, bool, list, dict, an enumeration or a model of pydantic"
        ) from error
    return model
