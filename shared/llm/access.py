"""Where a provider is that is used with a key, and who pays. Light to import: the command line says what is usable."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec

from ekiden.shared.errors import MissingModel

__all__ = ["KeyAccess"]

_NO_PACKAGE = "the Python package {package} is missing: pip install 'ekiden[{package}]'"


@dataclass(frozen=True)
class KeyAccess:
    """How a provider is reached.

    Attributes:
        name: What it is called; the models of one of the settings are ``NAME/MODEL`` to everybody but itself.
        base_url: Its address up to and with the version, as ``http://127.0.0.1:11434/v1``; None: OpenAI's own.
        key_variable: The environment variable that holds its key; None: it wants none.
        key: What that variable holds.
        package: Its client, and the extra that installs it.
        variables: The environment variables by which its client goes elsewhere, or comes for somebody else, where
            ``base_url`` is None.
    """

    name: str
    base_url: str | None = None
    key_variable: str | None = None
    key: str | None = field(default=None, repr=False)
    package: str = "openai"
    variables: tuple[str, ...] = ()

    def with_key(self, env: Mapping[str, str]) -> "KeyAccess":
        """Return the access with its key. Raises ``MissingModel`` where ``why_not`` has something to say."""
        if why := self.why_not(env):
            raise MissingModel(f"Provider {self.name!r} cannot be used: {why}")
        return replace(self, key=self.key_in(env))

    def why_not(self, env: Mapping[str, str]) -> str:
        """Say what is missing for using it, and how to mend it; empty when nothing is."""
        if find_spec(self.package) is None:
            return _NO_PACKAGE.format(package=self.package)
        if self.key_variable is None:
            return ""
        key = self.key_in(env)
        if key is None:
            return f"no key: set {self.key_variable}"
        if not re.fullmatch(r"[!-~]+", key):
            return f"{self.key_variable} holds characters that no key has, such as a line end: copy it again"
        return ""

    def account(self, env: Mapping[str, str]) -> str:
        """Return who pays, and where."""
        where = [self.base_url] if self.base_url else [env.get(name, "").strip() for name in self.variables]
        return " ".join([*where, self.key_in(env) or ""])

    def bare(self, model: str) -> str:
        """Return what the server calls the model."""
        return model.removeprefix(f"{self.name}/")

    def key_in(self, env: Mapping[str, str]) -> str | None:
        """Return its key; None: there is none, or it wants none."""
        return env.get(self.key_variable, "").strip() or None if self.key_variable else None
