"""The record of a fork: where a job's own steps begin."""

from typing import Literal

from pydantic import Field

from ekiden.shared.records.base import UNSAID, BaseRecord

__all__ = ["BY_FORK", "Forked"]

BY_FORK = "fork"
"""Who has set a session variable that comes with a fork."""


class Forked(BaseRecord):
    """The job goes on behind steps that another one has recorded and paid for, which stand before this.

    ``Retried`` follows where a graph that is retried lets a new child job go on with what the other one had not ended.
    """

    type: Literal["forked"] = "forked"
    job: str
    """The other job."""
    seq: int = Field(ge=1)
    """The position in both journals up to which they are the same."""
    replies: int = 0
    """How many answers of models that is."""
    prompt: str = UNSAID
    """What the user adds: the agent that goes on reads it behind its last turn, others with the request."""
    agent: str = UNSAID
    """Whom the user has put in charge."""
    catalog: str = UNSAID
    """The digest of the agents that the user has put in the place of the job's."""
    commit: str = UNSAID
    """Which commit the job's folder had checked out when the fork began: its files are not rewound."""
    traceparent: str = UNSAID
    """The ids of the other job's trace and root span (W3C)."""
