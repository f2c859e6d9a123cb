"""What fakeredis lacks of the servers' Lua: ``redis.sha1hex``, and that a script is compiled once."""

import hashlib
from typing import Any

from fakeredis.commands_mixins.scripting_mixin import ScriptingCommandsMixin

__all__ = ["complete_scripts"]


class _Runtime:
    """Lua of one server, which compiles each script when it first comes, as servers do.

    fakeredis does so, and collects all of Lua's garbage, whenever one runs: most of what a script costs.
    """

    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime
        self._compiled: dict[bytes, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runtime, name)

    def execute(self, script: bytes | str) -> Any:
        if isinstance(script, str):  # fakeredis' own, after each of ours: Lua collects its garbage without it
            return None
        if script not in self._compiled:
            self._compiled[script] = self._runtime.compile(script)
        return self._compiled[script]()


def complete_scripts() -> None:
    """Give them to all scripts of this process."""
    runtime_of = ScriptingCommandsMixin._get_server_runtime

    def complete(self: ScriptingCommandsMixin, server: Any) -> Any:
        is_new = not hasattr(server, "_lua_runtime")
        runtime = runtime_of(self, server)
        if is_new:
            runtime.globals()[b"redis"][b"sha1hex"] = lambda text: hashlib.sha1(text).hexdigest().encode()
            server._lua_runtime = runtime = _Runtime(runtime)
        return runtime

    ScriptingCommandsMixin._get_server_runtime = complete
