"""``ekiden graph export`` and ``import``: graphs for other programs, and from them."""

import json
import re
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic import ValidationError

from ekiden.dispatcher.cli.agents.create import path_for, rendered
from ekiden.dispatcher.cli.agents.discovery import open_agents
from ekiden.dispatcher.cli.agents.files import create_file
from ekiden.dispatcher.cli.options import AgentsDir
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.langgraph import Imported, exported, imported
from ekiden.shared.definitions.encoding import decode
from ekiden.shared.definitions.frontmatter import MAX_BYTES, read_front_matter
from ekiden.shared.definitions.graph import Graph
from ekiden.shared.definitions.graph_short_forms import FIELDS
from ekiden.shared.definitions.graph_writing import fields_of
from ekiden.shared.definitions.json_values import json_value
from ekiden.shared.definitions.loader import load_file
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.terminal_text import note, say

__all__ = ["export", "import_"]


def export(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The agent whose file has the graph.")],
    _format: Annotated[Literal["langgraph"], typer.Option("--format", help="In which format.")] = "langgraph",
    agents_dir: AgentsDir = None,
) -> None:
    """Print the graph of an agent as LangGraph's get_graph().to_json() gives it."""
    file = open_agents(agents_dir or []).get(name)
    if file.definition is None:
        raise InvalidRequest("; ".join(str(problem) for problem in file.problems))
    if file.definition.graph is None:
        raise InvalidRequest(f"agent {file.name!r} has no graph: write 'graph' or 'orchestrate' in {str(file.path)!r}")
    front = read_front_matter(decode(file.path.read_bytes()).text).fields
    rest = {key: value for key, value in json_value(front).items() if key not in FIELDS}
    say(json.dumps(exported(file.definition.graph, rest), ensure_ascii=False, indent=2))


def import_(
    file: Annotated[str, typer.Argument(metavar="FILE", help="What get_graph().to_json() gave, as JSON; - is stdin.")],
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Of the agent. [as in FILE, else its name]")] = None,
    scope: Annotated[Literal["project", "global"], typer.Option(help="Whose agent it is.")] = "project",
) -> None:
    """Write an agent file with the graph of a file in LangGraph's format.

    Conditions are functions there, which the format does not carry: they are marked, and the file is not used until
    they are written.
    """
    found = imported(_document(file))
    fields = _fields(found, name or str(found.file.get("name") or _name_after(file)))
    path = path_for(fields["name"], scope, open_agents([]))
    create_file(path, rendered(fields, remarks=[f"To complete: {one}" for one in found.notes]))
    out = Output()
    out.line(f"{out.symbols['ok']} Agent written: {path}")
    for one in found.notes:
        note(f"ekiden: to complete: {one}")
    for problem in load_file(path, scope)[1]:
        note(f"ekiden: {problem}")
    if found.notes:
        out.line(f"It is not used until it is complete: ekiden agents validate {fields['name']}")


def _name_after(file: str) -> str:
    words = re.findall(r"[^\W_]+", Path(file).stem.lower())
    return "-".join(words) or "graph"


def _document(file: str) -> Any:
    try:
        with sys.stdin.buffer if file == "-" else Path(file).open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise InvalidRequest(f"{file!r} is larger than {MAX_BYTES:,} bytes: no graph is")
        return json.loads(data)
    except OSError as error:
        raise InvalidRequest(f"{file!r} cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"{file!r} is no JSON: {error}") from None


def _fields(found: Imported, name: str) -> dict[str, Any]:
    """Return the front matter: that of the file which was exported, else no more than is needed."""
    usual = {"name": name, "kind": "graph", "description": f"Runs the graph {name}."}
    fields = {**usual, **found.file, "name": name}
    try:
        graph = Graph(**{**found.graph, "entry": _listed(found.graph["entry"]), "orchestrate": found.orchestrate})
    except (ValidationError, TypeError):  # which is said when the file is read
        return {**fields, "graph": found.graph}
    return {**fields, **fields_of(graph)}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
