"""Patterns of a model, compiled with RE2: matching takes linear time, and each byte a bounded one."""

from ekiden.shared.errors import DefinitionError, ToolError
from ekiden.shared.patterns import Pattern, compile_pattern

__all__ = ["compiled"]


def compiled(expression: str, *, named: str | None = None) -> Pattern:
    """Compile a regular expression that searches UTF-8 bytes; ``named`` is what an error calls it.

    Raises:
        ToolError: it is not an expression that RE2 knows, or is too large to be run.
    """
    try:
        return compile_pattern(expression, named=named)
    except DefinitionError as error:
        raise ToolError(
            f"{error}. Expected is RE2 syntax; put a backslash before characters that are meant literally"
        ) from None
