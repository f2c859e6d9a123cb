"""Teams of LLM agents over a real job queue. What programs use stands here, and is imported when it is first used.

import ekiden

print(ekiden.run("the tests of this project fail", cwd="/srv/shop").answer)

async with ekiden.Client("redis://127.0.0.1:6379/0") as client:
job = await client.submit("the tests of this project fail")
print((await client.wait(job)).result)
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ekiden.dispatcher.client import Client
    from ekiden.dispatcher.embedding import arun, run
    from ekiden.dispatcher.journal.graphs import graph_of, graph_views
    from ekiden.dispatcher.journal.listening import activities, pieces
    from ekiden.dispatcher.results import Result
    from ekiden.shared.errors import ToolError
    from ekiden.shared.stores.views import JobView as Job
    from ekiden.workers.tools.base import ToolContext, ToolOutput, tool

__all__ = [
    "Client",
    "Job",
    "Result",
    "ToolContext",
    "ToolError",
    "ToolOutput",
    "activities",
    "arun",
    "graph_of",
    "graph_views",
    "pieces",
    "run",
    "tool",
]

_PLACES = {
    "Client": ("ekiden.dispatcher.client", "Client"),
    "Job": ("ekiden.shared.stores.views", "JobView"),
    "Result": ("ekiden.dispatcher.results", "Result"),
    "ToolContext": ("ekiden.workers.tools.base", "ToolContext"),
    "ToolError": ("ekiden.shared.errors", "ToolError"),
    "ToolOutput": ("ekiden.workers.tools.base", "ToolOutput"),
    "activities": ("ekiden.dispatcher.journal.listening", "activities"),
    "arun": ("ekiden.dispatcher.embedding", "arun"),
    "graph_of": ("ekiden.dispatcher.journal.graphs", "graph_of"),
    "graph_views": ("ekiden.dispatcher.journal.graphs", "graph_views"),
    "pieces": ("ekiden.dispatcher.journal.listening", "pieces"),
    "run": ("ekiden.dispatcher.embedding", "run"),
    "tool": ("ekiden.workers.tools.base", "tool"),
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}: it has {', '.join(__all__)}")
    module, attribute = _PLACES[name]
    return getattr(importlib.import_module(module), attribute)


def __dir__() -> list[str]:
    return __all__
