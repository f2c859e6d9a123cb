"""Why another model may be asked in the place of one."""

from typing import Literal

__all__ = ["FallbackCause"]

FallbackCause = Literal["unavailable", "quota", "refused", "limit"]
"""It is away after all its tries, its quota is used up for long, its policy refuses to answer, or a limit of ours
(``limits.models``) leaves no room for the call."""
