"""What the ``agents`` commands print."""

from collections.abc import Collection, Iterable
from pathlib import Path
from shlex import quote
from typing import Any

from ekiden.dispatcher.cli.agents.checks import Report
from ekiden.dispatcher.cli.agents.discovery import AgentFile, Agents
from ekiden.dispatcher.cli.terminal.output import MARKS, Output
from ekiden.shared.definitions.model import AgentDefinition, Guardrail, HandoffRule, InputField
from ekiden.shared.definitions.problems import Problem
from ekiden.shared.terminal_text import note, one_line

__all__ = [
    "passes_on_to",
    "print_agent",
    "print_consequences",
    "print_findings",
    "print_levels",
    "print_problems",
    "print_reports",
    "row_of",
    "shown_path",
    "with_shipped",
]


def passes_on_to(agent: AgentDefinition) -> dict[str, list[str]]:
    """Return the agents that get work from this one, by what it does with them."""
    nodes = agent.graph.nodes if agent.graph is not None else ()
    return {
        "hands over to": list(agent.targets),
        "delegates to": [rule.agent for rule in agent.subagents],
        "has a graph with": [node.runner for node in nodes if node.runner],
    }


def row_of(file: AgentFile) -> dict[str, Any]:
    """Return what ``list --format json`` prints of an agent."""
    agent = file.definition
    assert agent is not None
    return {
        "name": agent.name,
        "title": agent.title,
        "description": agent.description,
        "model": agent.model,
        "fallbacks": list(agent.fallbacks),
        "tools": list(agent.tools.allow) if agent.tools and agent.tools.allow is not None else None,
        "handoffs": list(agent.targets),
        "subagents": [rule.agent for rule in agent.subagents],
        "level": file.level,
        "file": str(file.path),
        "shadowed": file.is_shadowed,
        "trusted": not file.is_held,
    }


def print_levels(files: list[AgentFile], scope: str) -> None:
    """Print the agents of each level as a table."""
    out = Output()
    usable = [file for file in files if file.definition]
    for level in dict.fromkeys(file.level for file in usable):
        out.line(f"{level.capitalize()} agents")
        rows = [
            [
                file.name,
                one_line(file.definition.title, 40),
                file.definition.model or "inherit",
                "another counts" if file.is_shadowed else "not trusted" if file.is_held else "",
            ]
            for file in usable
            if file.level == level and file.definition
        ]
        out.table(["name", "title", "model", ""], rows)
        out.line()
    if usable:
        out.line("`ekiden run --agent NAME` gives a request to one of them; `ekiden catalog show` lists those in force")
    else:
        out.line(f"No agents ({scope}). `ekiden agents create` makes one")


def print_agent(file: AgentFile, project_tools: Collection[str] = ()) -> None:
    """Print one agent, field by field; ``project_tools``: those of its project's own tool files that may run."""
    agent = file.definition
    assert agent is not None
    tools = agent.tools
    unknown = [tool for tool in tools.unknown if tool not in agent.allowed] if tools else []
    own = [tool for tool in unknown if tool in project_tools and agent.permits(tool)]
    fields = {
        "name": agent.name,
        "title": agent.title,
        "description": agent.description,
        "file": f"{shown_path(file.path)} ({file.level}{', not trusted' if file.is_held else ''})",
        "model": agent.model or "inherit",
        "fallbacks": _fallbacks(agent),
        "tools": ", ".join([*agent.allowed, *own]) or "none",
        "forbidden": ", ".join(tools.deny) if tools else "",
        "not here": ", ".join(tool for tool in unknown if tool not in own),
        "untrusted": "no risky tools behind untrusted text" if tools and tools.after_untrusted == "deny" else "",
        "keywords": ", ".join(agent.triggers.keywords),
        "hands over to": ", ".join(map(_handoff, agent.handoffs)),
        "delegates to": _delegation(agent),
        "graph": _graph(agent),
        "inputs": ", ".join(map(_input, agent.inputs, agent.inputs.values())),
        "output": _output(agent),
        "remembers": _memory(agent),
        "guardrails": ", ".join(map(_guardrail, agent.guardrails)),
        "limits": f"{agent.limits.max_turns} turns, {agent.limits.max_seconds:g} s",
        "of its jobs": ", ".join(f"{name} {most:g}" for name, most in agent.limits.of_job if most is not None),
        "other fields": ", ".join(agent.extra),
        "instructions": "" if agent.graph else f"{len(agent.instructions):,} characters (--prompt shows them)",
        "digest": agent.digest[:12],
    }
    out = Output()
    out.fields(((f"{name}:", one_line(value, 400)) for name, value in fields.items() if value), 14)


def _fallbacks(agent: AgentDefinition) -> str:
    on = f" (on {', '.join(agent.fallback_on)})" if agent.fallback_on else ""
    return f"{', '.join(agent.fallbacks)}{on}" if agent.fallbacks else ""


def _handoff(rule: HandoffRule) -> str:
    """Return the target, and in brackets what is not as usual."""
    marks = [
        "automatic" if rule.when == "auto" else "",
        f"if {rule.condition}" if rule.condition else "",
        "payload" if rule.payload is not None else "",
        "returns" if rule.returns else "",
    ]
    said = "; ".join(mark for mark in marks if mark)
    return f"{rule.to} ({said})" if said else rule.to


def _graph(agent: AgentDefinition) -> str:
    if agent.graph is None:
        return ""
    return f"{len(agent.graph.nodes)} nodes, {len(agent.graph.edges)} edges (`ekiden graph show {quote(agent.name)}`)"


def _delegation(agent: AgentDefinition) -> str:
    if not agent.subagents:
        return ""
    rules = agent.delegation
    return f"{', '.join(rule.agent for rule in agent.subagents)} (waits for {rules.join}, {rules.timeout:g} s each)"


def _memory(agent: AgentDefinition) -> str:
    variables = f"variables {', '.join(agent.memory.session)}" if agent.memory.session else ""
    if (notes := agent.memory.long_term) is None:
        return variables
    whose = f"shared {notes.shared}" if notes.namespace == "shared" else notes.namespace
    how = "put before it" if notes.recall == "auto" else "when it asks"
    by = "meaning" if notes.type == "vector" else "words"
    return "; ".join(filter(None, (variables, f"notes ({whose}), found by {by}, {notes.top_k} at most, {how}")))


def _input(name: str, field: InputField) -> str:
    return f"{name} ({field.type}{', required' if field.required else ''})"


def _guardrail(rail: Guardrail) -> str:
    return f"{rail.name} ({', '.join(rail.on)}; {rail.policy})"


def _output(agent: AgentDefinition) -> str:
    if agent.output is None:
        return "by complete_task" if agent.complete_task else ""
    return agent.output.name + (" (must end with it)" if agent.complete_task else "")


def print_consequences(agents: Agents, name: str, out: Output) -> None:
    """Say what is different now that an agent of this name was deleted."""
    if name in agents.in_force:
        out.line(f"Agent {name!r} in {shown_path(Path(agents.sources[name]))} counts now")
        return
    for agent in agents.in_force.values():
        for does, others in passes_on_to(agent).items():
            if name in others:
                out.line(
                    f"Agent {agent.name!r} still {does} {name!r}: mend it with `ekiden agents edit {quote(agent.name)}`"
                )


def print_reports(reports: list[Report], scripts: Iterable[Report] = (), *, in_full: bool, shipped: int = 0) -> None:
    """Print what was found out, either a whole list of checks or the files with findings.

    ``scripts``: those in which something is wrong; ``shipped``: of how many agents that come with Ekiden.
    """
    out = Output()
    for report in (*reports, *scripts):
        if in_full or report.passed < len(report.checks):
            _print_report(report, out)
    if in_full:
        out.line(f"Validation: {reports[0].passed}/{len(reports[0].checks)} passed")
        return
    errors, warnings = (
        sum(report.count(severity) for report in (*reports, *scripts)) for severity in ("error", "warning")
    )
    out.line(
        f"{with_shipped(f'{len(reports) - shipped} agent file(s)', shipped)}: {errors} error(s), {warnings} warning(s)"
    )


def with_shipped(files: str, shipped: int) -> str:
    """Say how many come with Ekiden beside the user's own ``files``: ``6 here, and 1 that comes with Ekiden``."""
    return f"{files}, and {shipped} that {'comes' if shipped == 1 else 'come'} with Ekiden" if shipped else files


def _print_report(report: Report, out: Output) -> None:
    out.line(f"{report.name} ({shown_path(report.file)})")
    for check in report.checks:
        out.line(f"  {out.symbols[MARKS[check.status]]} {check.title}", hang=4)
        for finding in check.findings:
            where = f"line {finding.line}: " if finding.line else ""
            out.line(f"      {finding.severity}: {where}{one_line(finding.message, 500)}", hang=8)


def print_problems(problems: Iterable[Problem]) -> None:
    """Print problems on standard error."""
    for problem in problems:
        where = f"line {problem.line}: " if problem.line else ""
        note(f"  {problem.severity}: {where}{problem.message}")


def print_findings(report: Report) -> None:
    """Print the findings alone, on standard error."""
    for check in report.checks:
        for finding in check.findings:
            note(f"  {finding.severity}: {finding.message}")


def shown_path(path: Path) -> str:
    """Return the path, short where it lies in this folder."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
