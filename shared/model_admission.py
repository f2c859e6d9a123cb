"""Limits of models: a call waits a moment where it is made; for longer its leg, in no worker, or others are asked."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from ekiden.shared.errors import EkidenError, ExceedsLimit, ModelError, ModelUnavailable, OverLimit
from ekiden.shared.llm.base import ChatModel, ModelReply, ModelRequest, OnDelta
from ekiden.shared.llm.context_windows import tokens_in, tokens_in_tools, tokens_of
from ekiden.shared.messages import Message
from ekiden.shared.model_limits import in_words, limit_for
from ekiden.shared.settings.limits import ModelLimitValues
from ekiden.shared.stores.base import Lease
from ekiden.shared.stores.model_limits import ModelLimit, RedisModelLimitStore, Reserved, Wait

__all__ = ["ModelLimits"]

PATIENCE_S = 1.0
"""How long a call waits where it is made, unless whoever makes it says otherwise."""
_SHORTEST_S = 0.05
_SETTLE_S = 1.0
"""How long a stopped call takes at most to give back what it has reserved: it ends by itself."""


class ModelLimits:
    """The limits that one process keeps to."""

    def __init__(
        self, store: RedisModelLimitStore, said: Mapping[str, ModelLimitValues], env: Mapping[str, str]
    ) -> None:
        self._store = store
        self._said = said
        self._env = env
        self._known: dict[str, ModelLimit | None] = {}

    def under(
        self, lease: Lease, models: Sequence[str] = (), *, patience_s: float = PATIENCE_S, queues: bool = True
    ) -> Callable[[ChatModel], ChatModel]:
        """Return what makes of a model one that a running job may ask.

        Args:
            lease: The job's.
            models: Those of which one serves a call, by name: it takes the job off the queues of the others.
            patience_s: How long a call waits at most where it is made.
            queues: Whether a leg is paused for what must wait longer; else nobody waits, ``OverLimit`` is all.
        """
        if not self._said:
            return lambda model: model
        admission = _JobAdmission(self._store, self._of, lease, models, patience_s=patience_s, queues=queues)
        return lambda model: _Limited(model, admission)

    def _of(self, model: str) -> ModelLimit | None:
        if model not in self._known:
            self._known[model] = limit_for(model, self._said, self._env)
        return self._known[model]


class _Limited:
    """A ``ChatModel`` whose requests carry their admission to where the provider is asked."""

    def __init__(self, model: ChatModel, admission: "_JobAdmission") -> None:
        self._model = model
        self._admission = admission

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        """Return the model's reply; raise what it raises, or ``OverLimit``."""
        return await self._model.reply(replace(request, admission=self._admission), on_delta)


class _JobAdmission:
    """Lets the calls of one job in, one after the other."""

    def __init__(
        self,
        store: RedisModelLimitStore,
        limit_of: Callable[[str], ModelLimit | None],
        lease: Lease,
        models: Sequence[str],
        *,
        patience_s: float,
        queues: bool,
    ) -> None:
        self._store = store
        self._limit_of = limit_of
        self._lease = lease
        self._limits = [limit for limit in map(limit_of, models) if limit is not None]
        self._patience_s = patience_s
        self._queues = queues
        self._size = _MessageSizes()
        self._has_left = False
        """Whether nothing of the job is left at other limits: since it was claimed, has taken its last place, or could
        not tell the server that a call was over."""

    async def __call__(self, request: ModelRequest, attempt: Callable[[], Awaitable[ModelReply]]) -> ModelReply:
        """See ``Admission``."""
        if (limit := self._limit_of(request.model)) is None:
            await self._leave_others(limit)
            return await attempt()
        reserved = await self._reserve(limit, self._estimate(limit, request), queues=self._queues and request.queues)
        try:
            await self._leave_others(limit)
            reply = await attempt()
        except ModelError as error:
            await self._failed(reserved, error)
            raise
        except BaseException:
            await self._settle(reserved, reserved.size)
            raise
        await self._settle(reserved, reply.usage.input_tokens + reply.usage.output_tokens or reserved.size)
        return reply

    async def _reserve(self, limit: ModelLimit, estimate: int, *, queues: bool) -> Reserved:
        patient_until = time.monotonic() + self._patience_s
        while True:
            taken = await self._take(limit, estimate, queues=False)
            if isinstance(taken, Reserved):
                return taken
            wait_s = max(taken.look_s, _SHORTEST_S) * random.uniform(1.0, 1.2)  # noqa: S311  # no secret
            if taken.others or time.monotonic() + wait_s > patient_until:
                break
            await asyncio.sleep(wait_s)
        if queues:
            await self._leave_others(limit)
            taken = await self._take(limit, estimate, queues=True)
        if isinstance(taken, Reserved):
            return taken
        self._has_left = self._has_left and not queues
        raise OverLimit(_told(limit, taken), taken.wait_s, is_refusal=taken.part == "blocked")

    async def _take(self, limit: ModelLimit, estimate: int, *, queues: bool) -> Reserved | Wait:
        return await self._store.take(limit, self._lease.job, estimate, queues=queues, fence=self._lease.fence)

    async def _leave_others(self, kept: ModelLimit | None) -> None:
        """Give up places, and reservations, at the limits of the other models: this one serves the job."""
        others = [limit for limit in self._limits if limit != kept]
        if others and not self._has_left:
            await self._store.leave(others, self._lease.job, fence=self._lease.fence)
        self._has_left = True

    async def _failed(self, reserved: Reserved, error: ModelError) -> None:
        leave_alone_s, refused = None, False
        if isinstance(error, ModelUnavailable):
            leave_alone_s, refused = error.retry_after_s, error.is_rate_limit
        try:
            await self._store.give_back(reserved, leave_alone_s=leave_alone_s, refused=refused)
        except EkidenError:
            self._has_left = False

    async def _settle(self, reserved: Reserved, used: int) -> None:
        """Count what was used; where the server is away, what was reserved counts."""
        try:
            async with asyncio.timeout(_SETTLE_S):
                await self._store.settle(reserved, used)
        except (EkidenError, TimeoutError):
            self._has_left = False  # its slot is free when the leg ends, or another model serves the job

    def _estimate(self, limit: ModelLimit, request: ModelRequest) -> int:
        if limit.tpm is None:
            return 1
        size = self._size.of(request.messages) + tokens_of(request.instructions) + tokens_in_tools(request.tools)
        if size > limit.tpm:
            raise ExceedsLimit(
                f"a call of {limit.name} takes about {size:,} tokens, and limits.models lets {limit.tpm:,} a minute "
                f"through: raise limits.models.{limit.name}.tpm, or compress conversations earlier"
            )
        return size


class _MessageSizes:
    """An estimate of the tokens of messages that mostly grow: each is measured once."""

    def __init__(self) -> None:
        self._read: tuple[Message, ...] = ()
        self._tokens = 0

    def of(self, messages: tuple[Message, ...]) -> int:
        known = len(self._read)
        if not known or messages[0] is not self._read[0] or messages[known - 1 : known] != self._read[-1:]:
            known, self._tokens = 0, 0
        self._tokens += sum(map(tokens_in, messages[known:]))
        self._read = messages
        return self._tokens


def _told(limit: ModelLimit, wait: Wait) -> str:
    about = f"about {max(1, round(wait.wait_s))} s"
    if wait.part == "blocked":
        return f"{limit.name}, whose provider is asked too often, {about}"
    most = getattr(limit, wait.part) if wait.part else None
    return f"{limit.name}'s limit{f' of {in_words(most, wait.part)}' if most else ''}, {about}"
