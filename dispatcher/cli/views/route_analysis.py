"""What ``ekiden route`` finds out, and how it shows it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ekiden.dispatcher.cli.given_text import MOST_OF_LINES, given_lines
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views.spending import spent_of
from ekiden.dispatcher.learning.taught import taught
from ekiden.dispatcher.routing.base import Route, RoutingResult
from ekiden.dispatcher.routing.near_ties import near_in
from ekiden.dispatcher.routing.overrides import parse_override, strategy_of
from ekiden.dispatcher.routing.strategies import Strategies
from ekiden.dispatcher.routing_bootstrap import load_catalog, strategies_of, strategy_in_force
from ekiden.dispatcher.unrouted import nobody, with_default
from ekiden.shared.definitions.catalog import Catalog, build_catalog
from ekiden.shared.definitions.loader import load_folder
from ekiden.shared.errors import InvalidRequest, MissingModel
from ekiden.shared.lessons import Lesson
from ekiden.shared.messages import Usage
from ekiden.shared.records import RoutingStage
from ekiden.shared.settings.model import Settings, key_of, load_settings
from ekiden.shared.terminal_text import note, one_line

if TYPE_CHECKING:
    from ekiden.dispatcher.routing.evaluation import Case

__all__ = ["Analysis", "analysed", "measured", "print_analysis"]

_METHODS = {
    "rule": "rule-based matching",
    "semantic": "meaning",
    "llm": "a model's choice",
    "agent": "named by the request",
    "fallback": "the default agent",
}
_KEYLESS = ("rule", "semantic")
"""Stages that are asked once more to explain them: a model costs money, and what it said stands among the stages."""
_EXPLAINED = 8


@dataclass(frozen=True)
class Analysis:
    """What would become of a request."""

    catalog: Catalog
    settings: Settings
    strategy: str
    result: RoutingResult
    model: str | None
    """Who is asked what is left open."""
    why_no_model: str = ""
    explained: Mapping[str, RoutingResult] = field(default_factory=dict)
    """By stage, whatever the strategy: empty unless that was asked for."""

    def as_json(self) -> dict[str, Any]:
        """Return it as one JSON object."""
        route = self.result.route
        fields: dict[str, Any] = {"strategy": self.strategy, "enabled": self.settings.routing_enabled}
        fields |= route.model_dump(mode="json") if route else {"agent": None, "stage": None}
        fields["model"] = self.model
        fields["near"] = list(near_in(self.result, self.catalog)[1:])
        fields["stages"] = [stage.model_dump(mode="json") for stage in self.result.stages]
        fields["candidates"] = [_dumped(one, self.catalog) for one in self.result.candidates]
        if self.explained:
            fields["explained"] = {
                stage: [_dumped(one, self.catalog) for one in result.candidates]
                for stage, result in self.explained.items()
            }
        return fields


async def analysed(
    prompt: str, strategy: str | None, folder: Path | None, *, explain: bool, lessons: Iterable[Lesson] = ()
) -> Analysis:
    """Route ``prompt`` as a dispatcher with these settings and ``lessons`` would; with ``explain``, by every stage."""
    settings = load_settings()
    catalog = taught(_catalog(settings, folder), lessons)
    routers = strategies_of(settings)
    override = parse_override(prompt, catalog.names, routers)
    name = _named(strategy, routers) or override.strategy or strategy_in_force(settings, routers)
    if override.agent is not None:
        route = Route(agent=override.agent, stage="agent", score=0, confidence=100)
        result = RoutingResult(route=route)
    elif not settings.routing_enabled:
        result = RoutingResult(stages=(RoutingStage(stage="none", note="Routing is disabled in the settings"),))
    else:
        default = settings.routing_default_agent if settings.routing_fallback == "default_agent" else None
        result = with_default(await routers[name].route(override.prompt, catalog), catalog, default)
    explained = {stage: await routers[stage].route(override.prompt, catalog) for stage in _KEYLESS} if explain else {}
    return Analysis(catalog, settings, name, result, *_model(routers, catalog), explained)


async def measured(
    file: Path, strategy: str | None, folder: Path | None, lessons: Iterable[Lesson] = ()
) -> dict[str, Any]:
    """Route the labelled requests of ``file`` and return the figures. Raises ``InvalidRequest`` naming bad lines."""
    from ekiden.dispatcher.routing.evaluation import evaluate  # only this one of the two commands needs it

    settings = load_settings()
    catalog = taught(_catalog(settings, folder), lessons)
    routers = strategies_of(settings)
    name = _named(strategy, routers) or strategy_in_force(settings, routers)
    cases = _cases(file, catalog.names)
    return {"strategy": name, **await evaluate(routers[name], catalog, cases)}


def _model(routers: Strategies, catalog: Catalog) -> tuple[str | None, str]:
    """Return the name of the model that is asked what is left open; None: nobody is, and why."""
    if routers.model is None:
        return None, f"{key_of('routing_llm_enabled')} is false"
    try:
        model = routers.model.model_for(catalog)
    except MissingModel as error:
        return None, str(error)
    return (None, model.note) if model.is_stand_in else (model.name, "")


def _named(strategy: str | None, routers: Strategies) -> str | None:
    """Return the strategy that the command names. What is wrong with plug-ins is told beside its output."""
    for problem in routers.problems:
        note(f"ekiden: {problem}")
    return strategy_of(strategy, routers) if strategy else None


def print_analysis(analysis: Analysis, out: Output | None = None) -> None:
    """Show it as the source does, and every stage's candidates where they were asked for."""
    out = out or Output()
    settings, route = analysis.settings, analysis.result.route
    out.line(f"{out.symbols['route']} Routing Analysis:\n", "bold")
    out.line(f"Current Strategy: {analysis.strategy}")
    out.line("Current Config:")
    out.line(f"  - Enabled: {str(settings.routing_enabled).lower()}")
    out.line(f"  - Rule Threshold: {settings.routing_rule_threshold:g}%")
    threshold = settings.routing_semantic_threshold
    out.line(f"  - Semantic Threshold: {'calibrated (50%)' if threshold is None else f'{threshold:g}%'}")
    out.line(f"  - LLM Model: {analysis.model or ': '.join(filter(None, ('none', analysis.why_no_model)))}")
    out.line(f"  - Fallback: {settings.routing_fallback}\n")
    if route is None:
        out.line(nobody(analysis.catalog, analysis.result), "yellow")
    else:
        _print_route(route, out)
        if near := near_in(analysis.result, analysis.catalog)[1:]:
            out.line(f"  About As Likely: {', '.join(near)}")
    _print_stages(analysis.result.stages, out)
    for stage, result in analysis.explained.items():
        _print_candidates(stage, result, analysis.catalog, out)


def _cases(file: Path, names: Sequence[str]) -> "list[Case]":
    from ekiden.dispatcher.routing.evaluation import read_cases

    return read_cases(given_lines(file, MOST_OF_LINES), names, f"{str(file)!r}: ")


def _catalog(settings: Settings, folder: Path | None) -> Catalog:
    if folder is None:
        return load_catalog(settings)
    if not folder.is_dir():
        raise InvalidRequest(f"--agents {str(folder)!r} is no folder: give one with agent files")
    catalog, _ = build_catalog(load_folder(folder, "project").definitions)
    if not len(catalog):
        raise InvalidRequest(f"there is no agent file that can be used in {str(folder)!r}: `ekiden agents validate`")
    return catalog


def _dumped(route: Route, catalog: Catalog) -> dict[str, Any]:
    fields = route.model_dump(mode="json")
    return {**fields, "arithmetic": _arithmetic(route, catalog)} if route.stage == "rule" else fields


def _arithmetic(route: Route, catalog: Catalog) -> str:
    keywords, patterns = len(route.matched_keywords), len(route.matched_patterns)
    priority = catalog.definition(route.agent).triggers.priority
    return f"({keywords} x 10 + {patterns} x 20) x {priority}/100 = {route.score:g}"


def _print_route(route: Route, out: Output) -> None:
    out.line("Routing Result:")
    out.line(f"  Method: {_METHODS.get(route.stage, route.stage)}")
    out.line(f"  Agent: {route.agent}", "bold")
    out.line(f"  Confidence: {route.confidence:.0f}%")
    if route.stage == "semantic":
        out.line(f"  Somebody's Here: {route.score:.0f}% (what the threshold is held against)")
    if route.matched_keywords:
        out.line(f"  Matched Keywords: {', '.join(route.matched_keywords)}")
    if route.matched_patterns:
        out.line(f"  Matched Patterns: {', '.join(route.matched_patterns)}")
    if route.reason:
        out.line(f"  Reason: {route.reason}")


def _print_stages(stages: Sequence[RoutingStage], out: Output) -> None:
    if not stages:
        return
    out.line()
    rows = [
        (
            stage.stage,
            stage.agent or "-",
            f"{stage.score:g}",
            f"{stage.confidence:.0f}%",
            "-" if stage.threshold is None else f"{stage.threshold:g}",
            "yes" if stage.decided else "no",
            f"{stage.duration_ms:.1f}",
            one_line(stage.note, 60, out.symbols["dots"]),
        )
        for stage in stages
    ]
    out.table(("stage", "best agent", "score", "confidence", "threshold", "decided", "ms", "note"), rows)
    for stage in (one for one in stages if one.usage != Usage()):
        spent = ", ".join(spent_of(stage.usage, stage.cost_usd))
        out.line(f"\n{stage.model} was asked: {spent}, {stage.duration_ms / 1000:.1f} s")


def _print_candidates(stage: str, result: RoutingResult, catalog: Catalog, out: Output) -> None:
    out.line(f"\nCandidates by {stage}:", "bold")
    if not result.candidates:
        out.line("  none: " + "; ".join(one.note for one in result.stages if one.note))
        return
    rows = [
        (
            route.agent,
            f"{route.confidence:.0f}%",
            _arithmetic(route, catalog) if stage == "rule" else f"{route.score:g}",
            one_line(", ".join((*route.matched_keywords, *route.matched_patterns)) or route.reason, 60),
        )
        for route in result.candidates[:_EXPLAINED]
    ]
    out.table(("agent", "confidence", "score", "matched"), rows)
