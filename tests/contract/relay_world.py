"""Ready-made jobs, claims and steps for tests of the stores and the relay."""

from typing import Any

from ekiden.shared.handoff import HandoffContext, first_context
from ekiden.shared.messages import Message, TextPart, Usage
from ekiden.shared.outcomes import Transfer
from ekiden.shared.records import Ended, JobRequested, ModelReplied, Record
from ekiden.shared.relay.message import DISPATCH_QUEUE, outbox
from ekiden.shared.relay.transitions import move_of
from ekiden.shared.stores.base import Claim, Claimed, Lease
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.submissions import Submission

LEASE_S = 30.0


async def submitted(stores: Stores, prompt: str = "fix it", request_id: str = "r1") -> str:
    """Submit a job and return its id."""
    job = await stores.jobs.reserve(None, request_id)
    assert await stores.jobs.submit(submission(job, prompt, request_id))
    return job


def submission(job: str, prompt: str = "fix it", request_id: str = "r1") -> Submission:
    """A submission of ``prompt``."""
    context, request = first_context(job), JobRequested(prompt=prompt, request_id=request_id)
    return Submission(job, request, context, outbox(job, 0, DISPATCH_QUEUE, context), 3600.0)


async def claim_of(stores: Stores, job: str, owner: str = "w1#1") -> Claim:
    """The claim that the job's queued message would lead to."""
    view = await stores.jobs.job(job)
    return Claim(job, view.leg, view.handoff_id, view.agent, owner, worker=owner.partition("#")[0])


async def claimed(stores: Stores, job: str, owner: str = "w1#1", lease_s: float = LEASE_S) -> Claimed:
    """Claim the job's current leg; must succeed."""
    got = await stores.jobs.claim(await claim_of(stores, job, owner), lease_s)
    assert isinstance(got, Claimed), got
    return got


async def sweepers(stores: Stores, job: str) -> Lease:
    """The sweeper's right to end the leg of a worker that is gone."""
    view = await stores.jobs.job(job)
    return Lease(job, view.leg, "", seq=view.seq)


def step_to(
    leg: Claimed,
    to: str,
    *,
    context: HandoffContext | None = None,
    cycles: str = "parent",
    state: dict[str, Any] | None = None,
    **changes: Any,
) -> dict[str, Any]:
    """What the store's ``transfer`` takes for a move from where ``leg`` is to agent ``to``; changes of the transfer."""
    number = leg.lease.leg
    context = context or leg.context.advance(to, f"because {number}", is_route=number == 0)
    transfer = Transfer(context, call_id="c1", catalog="cat", **changes)
    records, wakes = move_of(leg.lease.job, number, transfer, [])
    return {"transfer": transfer, "records": records, "outbox": wakes, "cycles": cycles, "state": state}


async def moved(stores: Stores, job: str, *agents: str) -> Claimed:
    """Carry the job over ``agents`` (the first is the route) and claim the last one's leg."""
    for agent in agents:
        leg = await claimed(stores, job)
        verdict, code = await stores.jobs.transfer(leg.lease, f"{leg.lease.fence}.t", **step_to(leg, agent))
        assert verdict == "ok", code
    return await claimed(stores, job)


def reply(text: str = "hello", leg: int = 1, *, tokens: int = 0, cost_usd: float | None = None) -> Record:
    """A model's reply."""
    message = Message(role="model", parts=(TextPart(text=text),))
    return ModelReplied(leg=leg, turn=1, message=message, usage=Usage(output_tokens=tokens), cost_usd=cost_usd)


def done(answer: str = "42", leg: int = 1) -> Ended:
    """A good end."""
    return Ended(leg=leg, status="done", reason="GOAL", answer=answer)
