"""What holds of a call: any denial, else any question, else a permission, else the default by risk."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from ekiden.shared.policy.decision import ALLOWED, Decision, Verdict
from ekiden.shared.policy.rules import Rule
from ekiden.shared.policy.shell_starters import hidden_in
from ekiden.shared.policy.shell_tree import Command, Redirection
from ekiden.shared.policy.tool_use import ToolUse
from ekiden.shared.risk import Risk

__all__ = ["DEFAULT", "Judgement", "Policy"]

DEFAULT = "default by risk"


@dataclass(frozen=True)
class Judgement:
    """A decision, and what else spoke to the call."""

    decision: Decision
    won: tuple[str, ...] = ()
    """The rules that it comes from; none: the default."""
    beaten: tuple[tuple[str, Verdict, str], ...] = ()
    """Rules that mean the call, too: name, what they say, and why they do not count."""


_MAY_MOVE = Judgement(replace(ALLOWED, rule="default: control may move as the agents' files say"))


@dataclass(frozen=True)
class Policy:
    """Rules of several sources, the ones that are told first standing first."""

    rules: tuple[Rule, ...] = ()
    auto_approve: frozenset[Risk] = frozenset({"safe", "low"})
    """The levels that run where no rule says anything."""
    tells_people_apart: bool = True
    """Whether who answers a question can be known here: by the server's users, or by signatures."""
    problems: tuple[str, ...] = field(default=(), compare=False)
    """What could not be read, and what is done about it; for people."""

    def with_rules(self, rules: Iterable[Rule], auto_approve: Collection[Risk] | None = None) -> "Policy":
        """Return this one with further rules, behind all others, and other levels."""
        levels = self.auto_approve if auto_approve is None else frozenset(auto_approve)
        return replace(self, rules=(*self.rules, *rules), auto_approve=levels)

    def decide(self, use: ToolUse) -> Decision:
        """Return what holds of the call."""
        return self.judge(use).decision

    def judge(self, use: ToolUse) -> Judgement:
        """Return what holds of the call, and which rules said so, or something else."""
        spoken = _Spoken.of(self.rules, use)
        by_rules = (spoken.denied, spoken.denied_as_critical, spoken.asked, spoken.allowed)
        for step in by_rules if spoken.rules else (spoken.denied_as_critical,):
            if (judgement := step()) is not None:
                return judgement if self.tells_people_apart else _without_names(judgement)
        return spoken.by_default(self.auto_approve)


@dataclass(frozen=True)
class _Spoken:
    """The rules that concern one call."""

    use: ToolUse
    rules: Sequence[Rule]

    @classmethod
    def of(cls, rules: Iterable[Rule], use: ToolUse) -> "_Spoken":
        """Keep what concerns the call, the most important first."""
        found = [rule for rule in rules if rule.concerns(use)]
        return cls(use, sorted(found, key=lambda rule: -rule.priority))

    def denied(self) -> Judgement | None:
        denies = [rule for rule in self._saying("deny") if not rule.commands or rule.meant_commands(self.use)]
        if not denies:
            return None
        rule = denies[0]
        why = rule.reason or f"it is denied to use {self.use.tool!r} like this"
        return self._judged(Decision("deny", f"{rule.name}: {why}", rule.name), denies, "a denial always counts")

    def denied_as_critical(self) -> Judgement | None:
        if self.use.risk != "critical" or self.use.is_control:
            return None
        permitting = [rule for rule in self.rules if rule.verdict != "deny"]
        if any(rule.names_critical(self.use) for rule in permitting):
            return None
        what = "this command ends or wipes a system" if self.use.critical_commands else f"{self.use.tool!r} is critical"
        reason = f"{what}: it is denied unless a rule names it"
        return self._judged(Decision("deny", reason, DEFAULT), [], "it does not name what is critical")

    def asked(self) -> Judgement | None:
        asking = [(rule, why) for rule in self._saying("ask", "deny") if (why := self._why_asked(rule)) is not None]
        if not asking:
            return None
        rules = [rule for rule, _ in asking]
        rule, why = asking[0]
        decision = _restricted(Decision("ask", f"{rule.name}: {why}", rule.name), rules)
        return self._judged(decision, rules, "a question always counts before a permission of another source")

    def _why_asked(self, rule: Rule) -> str | None:
        """Say why a rule has the call asked about; None: it does not."""
        hidden = rule.hides(self.use) if rule.commands else ""
        if rule.verdict == "deny":  # it means none of the commands that there are
            return f"may be denied: {hidden}" if hidden else None
        meant = rule.meant_commands(self.use) if rule.commands else None
        if meant == [] and not hidden:
            return None
        if not hidden and self._allowing(lambda one: _stands_above(one, rule), meant):
            return None
        return hidden or rule.reason or f"to use {self.use.tool!r} like this is asked about"

    def allowed(self) -> Judgement | None:
        rules = self._allowing(lambda _: True)
        if not rules:
            return None
        decision = replace(ALLOWED, rule=rules[0].name, reason=rules[0].reason)
        return self._judged(decision, rules, "others allow it already")

    def by_default(self, auto_approve: Collection[Risk]) -> Judgement:
        risk = self.use.risk
        if self.use.is_control:
            return _MAY_MOVE
        why_not = "it does not certainly mean the whole call" + (f": {doubt}" if (doubt := self._doubt()) else "")
        if risk in auto_approve and risk != "critical":
            return self._judged(replace(ALLOWED, rule=DEFAULT), [], why_not)
        doubt = f"; {hidden}" if self.use.script and (hidden := hidden_in(self.use.script)) else ""
        reason = f"{self.use.tool!r} has risk {risk!r} here, which nobody approved beforehand{doubt}"
        return self._judged(Decision("ask", reason, DEFAULT), [], why_not)

    def _saying(self, *verdicts: Verdict) -> list[Rule]:
        return [rule for rule in self.rules if rule.verdict in verdicts]

    def _allowing(self, counts: Callable[[Rule], bool], commands: Sequence[Command] | None = None) -> list[Rule]:
        """Return the rules that together allow the call, or some of its commands; none: they do not."""
        allows = [rule for rule in self._saying("allow") if counts(rule)]
        if whole := [rule for rule in allows if not rule.commands]:
            return whole
        script = self.use.script
        if script is None or not script.commands or self._doubt():
            return []
        chosen = [
            next((rule for rule in allows if rule.permits(command)), None)
            for command in (script.commands if commands is None else commands)
        ]
        rules = [rule for rule in dict.fromkeys(chosen) if rule is not None]
        if None in chosen or (script.redirections and not _allow_writing(rules, script.redirections)):
            return []
        return rules

    def _doubt(self) -> str:
        """Say what is not understood of the command; empty: everything is."""
        script = self.use.script
        return next(iter((*script.doubts, *filter(None, [hidden_in(script)]))), "") if script else ""

    def _judged(self, said: Decision, won: Sequence[Rule], why_not: str) -> Judgement:
        decision = replace(said, risk=self.use.risk)
        same = [rule for rule in self.rules if rule not in won and self._means(rule)]
        return Judgement(
            decision,
            tuple(rule.name for rule in won),
            tuple((rule.name, rule.verdict, why_not) for rule in same),
        )

    def _means(self, rule: Rule) -> bool:
        if not rule.commands:
            return True
        if rule.verdict != "allow":
            return bool(rule.meant_commands(self.use))
        return self.use.script is not None and any(map(rule.permits, self.use.script.commands))


def _without_names(judgement: Judgement) -> Judgement:
    """Deny what only certain people may answer where nobody can tell who answers."""
    decision = judgement.decision
    if decision.verdict != "ask" or not (decision.approvers or decision.separate):
        return judgement
    reason = (
        f"{decision.rule}: it says who may approve this, and nobody can tell people apart here. Give each a user of "
        "the Redis server (`ekiden acl`), or sign (ekiden.signing_key)"
    )
    return replace(judgement, decision=Decision("deny", reason, decision.rule, decision.risk))


def _stands_above(rule: Rule, other: Rule) -> bool:
    """Tell whether an author put one rule of a source above another."""
    return rule.source == other.source and rule.priority > other.priority


def _allow_writing(rules: Sequence[Rule], redirections: Sequence[Redirection]) -> bool:
    """Tell whether files may be written: by all of the rules, and they lie below the folder, none of them hidden."""
    return all(rule.allows_redirection for rule in rules) and all(
        _is_harmless(one.target.text, one) for one in redirections
    )


def _is_harmless(path: str, redirection: Redirection) -> bool:
    names = path.split("/")
    return redirection.target.is_known and not path.startswith(("/", "~", "-")) and not any(n[:1] == "." for n in names)


def _restricted(decision: Decision, rules: Sequence[Rule]) -> Decision:
    """Put together whom several rules let decide, and how long: the strictest counts."""
    approvers: frozenset[str] | None = None
    for rule in rules:
        if rule.approvers:
            named = frozenset(rule.approvers)
            approvers = named if approvers is None else approvers & named
    if approvers is not None and not approvers:
        names = ", ".join(rule.name for rule in rules if rule.approvers)
        return Decision("deny", f"nobody is named as approver by all of {names}: mend these rules", decision.rule)
    times = [rule.timeout_s for rule in rules if rule.timeout_s is not None]
    return replace(
        decision,
        approvers=tuple(sorted(approvers or ())),
        separate=any(rule.separate for rule in rules),
        timeout_s=min(times, default=None),
    )
