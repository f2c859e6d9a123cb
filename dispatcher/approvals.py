"""The part of the client that answers approvals: what waits for a person, and what they say to it."""

from ekiden.shared.approvals import Answer, ApprovalView
from ekiden.shared.stores.opening import Stores

__all__ = ["Approvals"]


class Approvals:
    """Lists and answers approvals: of this client's jobs and of all others on its server."""

    _stores: Stores

    async def approvals(self, *, job: str | None = None, waiting: bool = True) -> list[ApprovalView]:
        """Return what waits for a person, of ``job`` and all that was delegated below it, or of all jobs.

        What expires first comes first. With ``waiting=False`` what was decided, too: then ``job`` is needed.
        """
        raise NotImplementedError

    async def approval(self, id: str) -> ApprovalView:  # noqa: A002  # what everybody calls it
        """Return one approval, waiting or decided. Raises ``ApprovalGone``."""
        raise NotImplementedError

    async def answer(self, id: str, answer: Answer) -> ApprovalView:  # noqa: A002  # as above
        """Answer an approval once and for all; return it as decided.

        Raises:
            AlreadyDecided: somebody was quicker.
            ApprovalGone: it does not exist, has expired, or its job has ended.
            NotAnApprover: the rule that asks lets others answer.
            InvalidRequest: the answer does not fit what was asked, or is for another call than the one that was shown.
            NotPermitted: the Redis user may not decide.
            NotConfirmed: it is decided, but replicas do not have it.
        """
        raise NotImplementedError
