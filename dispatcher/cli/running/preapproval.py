"""What whoever types a command says in advance to what its job will ask."""

from dataclasses import dataclass

from ekiden.shared.approvals import WhenAsked
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.risk import RISKS, Risk

__all__ = ["DEMO", "NOTHING_APPROVED", "Preapproval"]


@dataclass(frozen=True)
class Preapproval:
    """Which calls are approved, by their risk, and what becomes of others where nobody is asked."""

    risks: tuple[Risk, ...] = ()
    when_asked: WhenAsked = "park"

    @classmethod
    def of(cls, approve: str | None, non_interactive: WhenAsked | None) -> "Preapproval":
        """Read the options. ``all`` is all but ``critical``, which must be named. Raises ``InvalidRequest``."""
        words = [word.strip() for word in (approve or "").split(",") if word.strip()]
        if approve is not None and not words:
            raise InvalidRequest(f"--approve names nothing: give some of {', '.join(RISKS)}, or all")
        if wrong := [word for word in words if word not in (*RISKS, "all")]:
            raise InvalidRequest(f"--approve {wrong[0]!r} is no risk: give some of {', '.join(RISKS)}, or all")
        named = tuple(risk for risk in RISKS if risk in words or ("all" in words and risk != "critical"))
        return cls(named, non_interactive or "park")


NOTHING_APPROVED = Preapproval()
DEMO: tuple[Risk, ...] = ("safe", "low", "medium")
"""What is approved in the folder that we made for the demo: all that its team does."""
