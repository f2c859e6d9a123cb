"""Commands that are imported when they are called: to list them, or to run another one, costs no more than typer."""

import importlib
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

__all__ = ["LazyGroup", "command_of"]


class LazyGroup(TyperGroup):
    """A group with such commands behind those that it was given."""

    lazy: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """By name: ``module:attribute``, and what ``--help`` says of the command without importing it."""
    elsewhere: ClassVar[Mapping[str, str]] = {}
    """Names that others have for what is done here by another command -> which one that is."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands.update({name: _Lazy(name, target, text) for name, (target, text) in self.lazy.items()})

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """See click; where there is no such command, say which one does what was meant."""
        try:
            return super().resolve_command(ctx, args)
        except Exception as error:
            if hint := self.instead_of(args[0]):
                error.message = f"{getattr(error, 'message', error)} {hint}"  # type: ignore[attr-defined]  # click's
            raise

    def instead_of(self, name: str) -> str:
        """Say what to use in the place of a command that is none; empty where nobody knows."""
        return self.elsewhere.get(name, "")


_OF_A_SENTENCE = {"run", "submit"}
"""Commands whose argument is what people say."""


class _Lazy(TyperCommand):
    def __init__(self, name: str, target: str, text: str) -> None:
        super().__init__(name, help=text)
        self._target = target

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """See click: the command itself takes over from here."""
        module, _, name = self._target.partition(":")
        command = command_of(info_name or "", getattr(importlib.import_module(module), name))
        try:
            return command.make_context(info_name, args, parent=parent, **extra)
        except Exception as error:
            if info_name in _OF_A_SENTENCE and hasattr(error, "option_name"):  # click's NoSuchOption
                said = str(getattr(error, "message", "")).rstrip(".")
                error.message = f"{said}. Words behind `--` are the request."  # type: ignore[attr-defined]
            raise


@cache  # what its parameters are, and how each is read, typer finds out anew each time
def command_of(name: str, made: Callable[..., Any] | typer.Typer) -> Any:
    """Return the command that a function is, or the group that an app is."""
    if isinstance(made, typer.Typer):
        return typer.main.get_group(made)
    one = typer.Typer(add_completion=False)
    one.command(name, context_settings={"help_option_names": ["-h", "--help"]})(made)
    return typer.main.get_command(one)
