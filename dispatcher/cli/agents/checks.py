"""What ``ekiden agents validate`` looks at."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from ekiden.dispatcher.cli.agents.discovery import AgentFile
from ekiden.dispatcher.cli.agents.tools import KnownTools
from ekiden.shared.definitions.catalog import build_catalog
from ekiden.shared.definitions.encoding import decode
from ekiden.shared.definitions.fields import KNOWN_FIELDS, MCP_SERVERS
from ekiden.shared.definitions.frontmatter import read_front_matter
from ekiden.shared.definitions.graph import Graph
from ekiden.shared.definitions.graph_arguments import wrong_arguments
from ekiden.shared.definitions.graph_shape import place_in
from ekiden.shared.definitions.mcp_use import own_servers, servers_used
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.definitions.places import line_in
from ekiden.shared.definitions.problems import Problem
from ekiden.shared.definitions.tool_names import is_foreign, tools_meant
from ekiden.shared.definitions.transfer_names import delegation_tool_name
from ekiden.shared.errors import ConfigurationError, DefinitionError
from ekiden.shared.instructions import places_in
from ekiden.shared.llm.models import names_model, provider_of
from ekiden.shared.schemas import check
from ekiden.shared.settings.files import global_file
from ekiden.shared.terminal_text import one_line

__all__ = ["Check", "Checker", "Finding", "Report", "is_kebab", "script_reports"]

MAX_DESCRIPTION = 1024
"""What the other programs that read such files take."""
_KINDS = ("agent", "local", "graph")
_PLACEHOLDER = re.compile(
    r"^[ \t]*(?:[-*#>]+[ \t]*)*(?:(?:TODO|TBD|FIXME)\b|lorem ipsum"
    r"|Describe the task here\b|Say what a good answer holds\b|[<\[{]+\s*(?:your|insert|describe|fill)\b).*",
    re.IGNORECASE | re.MULTILINE,
)
"""A line that stands where something is to be written: ours of ``agents create``, and what others use."""


@dataclass(frozen=True)
class Finding:
    """Something to mend."""

    severity: Literal["error", "warning"]
    message: str
    line: int | None = None


@dataclass(frozen=True)
class Check:
    """One point of the list."""

    title: str
    findings: tuple[Finding, ...] = ()

    @property
    def status(self) -> Literal["ok", "warning", "error"]:
        """The worst of the findings."""
        severities = {finding.severity for finding in self.findings}
        return "error" if "error" in severities else "warning" if severities else "ok"


@dataclass(frozen=True)
class Report:
    """What was found out about one file."""

    name: str
    file: Path
    checks: tuple[Check, ...]

    def count(self, severity: str) -> int:
        """Count the findings of this severity."""
        return sum(finding.severity == severity for check in self.checks for finding in check.findings)

    @property
    def errors(self) -> list[str]:
        """The errors, each as ``file:line: error: what``."""
        found = [finding for check in self.checks for finding in check.findings if finding.severity == "error"]
        return [str(Problem(str(self.file), one.line, one.severity, one.message)) for one in found]

    @property
    def passed(self) -> int:
        """How many checks found nothing."""
        return sum(check.status == "ok" for check in self.checks)

    def as_json(self) -> dict[str, Any]:
        """Return the report as ``--json`` prints it."""
        return {
            "name": self.name,
            "file": str(self.file),
            "checks": [
                {
                    "check": check.title,
                    "status": check.status,
                    "findings": [
                        {"severity": found.severity, "line": found.line, "message": found.message}
                        for found in check.findings
                    ],
                }
                for check in self.checks
            ],
        }


class Checker:
    """Checks agent files against each other and against the settings.

    Attributes:
        agents: The definitions that count, by name.
        servers: The names of the MCP servers that are configured here; None: whoever asks does not judge them.
        models: Names, or patterns of names, that the settings give to models.
        default_model: The model of agents that name none.
        tools: The tools that there are.
        broken: Agents whose files have errors, each with the place of the first one.
        findability: What is wrong with how requests find the agents, by name; empty: that was not looked at.
    """

    def __init__(
        self,
        agents: Mapping[str, AgentDefinition],
        servers: Iterable[str] | None = None,
        models: Iterable[str] = (),
        default_model: str = "",
        tools: KnownTools | None = None,
        broken: Mapping[str, str] | None = None,
    ) -> None:
        self.agents = agents
        self.servers = None if servers is None else frozenset(servers)
        self.models = frozenset(models)
        self.default_model = default_model
        self.tools = tools or KnownTools()
        self.findability: Mapping[str, tuple[Finding, ...]] = {}
        self.broken = broken or {}
        self._references = self._between_all(agents)

    def report(self, file: AgentFile) -> Report:
        """Check one file."""
        checks = [
            Check("Front matter valid", _of(file.problems, "file", "front matter")),
            Check("Required fields present", _of(file.problems, "fields") + tuple(_undescribed(file))),
        ]
        if wrong := _of(file.problems, "values"):
            checks.append(Check("Values of fields understood", wrong))
        agent = file.definition
        if agent is None:
            checks.append(Check("Tools understood", _of(file.problems, "tools")))
            return Report(file.name, file.path, tuple(check for check in checks if check.findings))
        lines = _lines_of(file.path)
        checks += [
            Check(_model_title(agent.model or self.default_model), tuple(self._model(agent, lines))),
            Check(_titled("Tools", _available(agent)), _of(file.problems, "tools") + tuple(self._tools(agent, lines))),
            Check(_titled("MCP servers", servers_used(agent), "configured"), tuple(self._unconfigured(agent, lines))),
            Check("System prompt not empty", _of(file.problems, "instructions") + tuple(_unwritten(agent, file.path))),
            Check(
                "Handoffs and sub-agents lead to agents", self._between(file, agent, ("handoffs", "subagents", "name"))
            ),
            Check("Conventions kept", tuple(_conventions(agent, lines))),
        ]
        if agent.name in self.findability and self.agents.get(agent.name) is agent:
            checks.append(Check("Found by requests", self.findability[agent.name]))
        if agent.graph is not None:
            checks.append(
                Check(
                    f"Graph of {len(agent.graph.nodes)} nodes sound",
                    (
                        *_of(file.problems, "graph"),
                        *self._between(file, agent, ("graph",)),
                        *self._arguments(file.path, agent.graph),
                    ),
                )
            )
        if agent.guardrails:
            named = (*self._validators(agent, lines), *self._guarded_tools(agent, lines))
            checks.append(Check("Guardrails can be asked", named))
        if agent.inputs or (agent.output and agent.output.process):
            checks.append(Check("Inputs and output known", (*_places(agent), *self._process(agent, lines))))
        return Report(file.name, file.path, tuple(checks))

    def _model(self, agent: AgentDefinition, lines: Mapping[str, int]) -> Iterator[Finding]:
        for model in agent.models:
            if not names_model(model) or provider_of(model or "") or self._is_alias(model or ""):
                continue
            message = f"model {model!r} is none that Ekiden knows: give it an alias in the settings, or write 'inherit'"
            yield Finding("warning", message, lines.get("model") or lines.get("models"))

    def _is_alias(self, model: str) -> bool:
        return any(fnmatchcase(model, known) for known in self.models)

    def _process(self, agent: AgentDefinition, lines: Mapping[str, int]) -> Iterator[Finding]:
        name = agent.output.process if agent.output else ""
        if name and name not in self.tools.processors:
            text = f"no worker ships with the output processor {name!r}, and no plug-in that is allowed here brings it"
            yield Finding("warning", text + _near(name, self.tools.processors), lines.get("output"))

    def _validators(self, agent: AgentDefinition, lines: Mapping[str, int]) -> Iterator[Finding]:
        for name in (rail.validator for rail in agent.guardrails):
            if name and name not in self.tools.validators:
                text = f"no worker ships with the validator {name!r}, and no plug-in that is allowed here brings it"
                text += f": nothing would pass{_near(name, self.tools.validators)}"
                yield Finding("warning", text, lines.get("guardrails"))

    def _guarded_tools(self, agent: AgentDefinition, lines: Mapping[str, int]) -> Iterator[Finding]:
        called = [one.agent for one in agent.subagents] + [rule.to for rule in agent.handoffs]
        others = [*called, *map(delegation_tool_name, called)]
        for rail in agent.guardrails:
            for name in rail.tools:
                is_known = self.tools.ever_has(name) or any(fnmatchcase(one, name) for one in others)
                if is_known or name.startswith("mcp.") or tools_meant(name):
                    continue
                text = f"the guardrail {rail.name!r} is for {name!r}, and {self.tools.whose} such a tool"
                yield Finding("warning", text + _near(name, [*self.tools.names, *others]), lines.get("guardrails"))

    def _tools(self, agent: AgentDefinition, lines: Mapping[str, int]) -> Iterator[Finding]:
        line, known = lines.get("tools"), self.tools
        for name in agent.allowed if agent.rules.allow is not None else ():
            if not name.startswith("mcp.") and not known.has(name):
                hint = _near(name, known.names)
                then = "waits until" if known.ever_has(name) else "works without, until"
                text = f"{known.whose} the tool {name!r}: the agent {then} a worker has it{hint}"
                yield Finding("warning", text, line)
        if agent.allowed and not _available(agent):
            yield Finding("warning", "all that the file allows it also forbids: the agent works without any tool", line)
        for name in agent.tools.deny if agent.tools else ():
            if not (name.startswith("mcp.") or known.ever_has(name) or tools_meant(name) or is_foreign(name)):
                text = f"{name!r} is forbidden, and {known.whose} such a tool{_near(name, known.names)}"
                yield Finding("warning", text, line)

    def _unconfigured(self, agent: AgentDefinition, lines: Mapping[str, int]) -> Iterator[Finding]:
        line, own = next((lines[key] for key in MCP_SERVERS if key in lines), lines.get("tools")), own_servers(agent)
        for server in servers_used(agent):
            if isinstance(wrong := own.get(server), ConfigurationError):
                yield Finding("error", str(wrong), line)
            elif server in own or self.servers is None:
                continue
            elif problem := self.tools.servers.get(server):
                yield Finding("warning", f"MCP server {server!r} is there and does not work: {problem}", line)
            elif server not in self.servers and server not in self.tools.servers:
                text = f"MCP server not configured: {server}. Add it to 'mcpServers' in {global_file()}"
                yield Finding("error", text, line)
        for server, has in self.tools.server_tools.items():
            for name in agent.allowed if server not in own else ():
                if name.startswith(f"mcp.{server}.") and not any(fnmatchcase(one, name) for one in has):
                    text = f"the MCP server {server!r} has no tool {name!r}{_near(name, has)}"
                    yield Finding("warning", text, lines.get("tools"))

    def _arguments(self, file: Path, graph: Graph) -> Iterator[Finding]:
        """Find what nodes give tools that do not take it; of those that workers ship with, the catalog says so."""
        for number, node in enumerate(graph.nodes):
            with suppress(DefinitionError):  # a schema that cannot be used says nothing
                check(schema := self.tools.schemas.get(node.tool, {}))
                for place, message in wrong_arguments(node, schema) if schema else ():
                    yield Finding("warning", message, line_in(file, place_in(graph, ("nodes", number, *place))))

    def _between_all(self, agents: Mapping[str, AgentDefinition]) -> list[Problem]:
        """Return what is wrong between the agents; without sources, an agent stands for its file."""
        return build_catalog(agents.values(), broken=self.broken)[1]

    def _between(self, file: AgentFile, agent: AgentDefinition, aspects: tuple[str, ...]) -> tuple[Finding, ...]:
        is_in_force = self.agents.get(agent.name) is agent
        found = self._references if is_in_force else self._between_all({**self.agents, agent.name: agent})
        own = [one for one in found if one.file == agent.name and one.aspect in aspects]
        return tuple(Finding(one.severity, one.message, line_in(file.path, one.place)) for one in own)


def script_reports(folder: Path | None) -> list[Report]:
    """Report on the scripts of the stand-in model in which something is wrong: no agent is played by any then."""
    from ekiden.shared.llm.scripted import read_scripts  # few have scripts

    faults: dict[str, list[Finding]] = {}
    for fault in read_scripts(folder)[1] if folder else ():
        faults.setdefault(fault.file, []).append(Finding("error", fault.message, fault.line))
    title = "Script of the stand-in model understood"
    return [Report(Path(file).name, Path(file), (Check(title, tuple(found)),)) for file, found in faults.items()]


def _of(problems: Iterable[Problem], *aspects: str) -> tuple[Finding, ...]:
    return tuple(
        Finding(problem.severity, problem.message, problem.line) for problem in problems if problem.aspect in aspects
    )


def _model_title(model: str) -> str:
    return f"Model {model!r} known" if model else "Model of the settings"


def _titled(what: str, names: Iterable[str], state: str = "available") -> str:
    listed = ", ".join(names)
    return f"{what} [{listed}] {state}" if listed else f"{what} {state}"


def _available(agent: AgentDefinition) -> list[str]:
    """Return what the file allows and does not forbid again: names, and patterns as they stand."""
    return [entry for entry in agent.allowed if set(entry) & set("*?[") or agent.permits(entry)]


def _conventions(agent: AgentDefinition, lines: Mapping[str, int]) -> Iterator[Finding]:
    if not is_kebab(agent.name):
        text = f"{agent.name!r} is not kebab-case ('code-fixer'), which is easier to type"
        yield Finding("warning", text, lines.get("name"))
    if agent.kind not in _KINDS:
        yield Finding("warning", f"kind {agent.kind!r} is run as 'agent'", lines.get("kind"))
    if len(agent.description) > MAX_DESCRIPTION:
        text = f"the description has {len(agent.description):,} characters; over {MAX_DESCRIPTION:,} few models heed"
        yield Finding("warning", text, lines.get("description"))
    for key in agent.extra:
        if key not in KNOWN_FIELDS:
            text = f"{key!r} is no field that Ekiden knows: it does nothing here{_near(key, KNOWN_FIELDS)}"
            yield Finding("warning", text, lines.get(key))


def _places(agent: AgentDefinition) -> Iterator[Finding]:
    """Find places that no input fills, where the file declares inputs: else they may be anything."""
    for name in dict.fromkeys(places_in(agent.instructions)) if agent.inputs else ():
        if name not in agent.inputs:
            text = f"the text has a place for {name!r}, which is none of the inputs{_near(name, agent.inputs)}"
            yield Finding("warning", text, None)


def _undescribed(file: AgentFile) -> Iterator[Finding]:
    agent = file.definition
    if agent is not None and agent.description in (agent.title, agent.name):
        text = (
            "it has no description: routers, and agents that hand over, know it by its title alone. Say what it is for"
        )
        yield Finding("warning", text, _lines_of(file.path).get("description"))


def _unwritten(agent: AgentDefinition, path: Path) -> Iterator[Finding]:
    """Tell of the first line of the instructions that is a placeholder."""
    found = _PLACEHOLDER.search(agent.instructions)
    if found is None:
        return
    line = None
    with suppress(OSError, DefinitionError):
        before, here, _ = decode(path.read_bytes()).text.rpartition(found[0])
        line = before.count("\n") + 1 if here else None
    said = one_line(found[0], 60)
    yield Finding("warning", f"the instructions hold a placeholder, {said!r}: write what the agent is to do", line)


def is_kebab(name: str) -> bool:
    """Tell whether ``name`` is letters and digits, of any script, in parts that single hyphens join."""
    parts = name.split("-")
    return name == name.lower() and all(part.isalnum() for part in parts)


def _near(name: str, names: Iterable[str]) -> str:
    near = get_close_matches(name, names, n=1, cutoff=0.75)
    return f". Did you mean {near[0]!r}?" if near else ""


def _lines_of(path: Path) -> Mapping[str, int]:
    with suppress(OSError, DefinitionError):
        return read_front_matter(decode(path.read_bytes()).text).lines
    return {}
