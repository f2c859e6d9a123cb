"""One trace for each job, over real processes and into a collector: what must be in it, and what must not."""

import asyncio
import json
import subprocess
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ekiden.dispatcher.client import Client
from ekiden.dispatcher.journal.exports.otlp import otlp_trace
from ekiden.shared.ids import session_id_for, session_of
from ekiden.shared.prices import Prices
from ekiden.shared.records import Entry
from ekiden.shared.stores.views import JobView
from tests.benchmarks.stack import Stack, stack
from tests.doubles.otlp import OtlpReceiver, SpanSeen, read_document, same_trace
from tests.e2e.program import PATIENCE_S
from tests.e2e.tracing_app import AGENTS
from tests.integration.scratch import free_port

QUEUES = [f"ekiden.agent.{name}" for name in (*AGENTS, "lead", "scout")]
APP = "tests.e2e.tracing_app"
CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
WORDS = ("zanzibar", "quokka", "marmalade", "gazpacho", "okapi")
"""Words of the prompt, the arguments, the results, the answer and the handoff: found nowhere else."""
SECRETS = {
    "key": "AIzaSyD3adB33fD3adB33fD3adB33fD3adB33fD",
    "bearer": "Bearer q9w8e7r6t5y4u3i2o1p0",
    "url": "hunter2hunter2",
    "private key": "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC",
    "environment": "t0psecret-of-the-environment",
    "pattern": "ACME-0815-4711",
}
AGENT = """---
name: {name}
description: {name}
tools: "*"
handoffs: [{handoffs}]
subagents: [{subagents}]
triggers: {{keywords: [{name}]}}
---
Work.
"""
SCRIPT = """
agents:
  first:
    - name: look
      call: [{tool: look, args: {what: quokka}}, {tool: look, args: {what: marmalade}}]
    - {name: hand, call: [{tool: transfer_to_nobody, args: {reason: okapi}}]}
    - {name: hand2, call: [{tool: transfer_to_second, args: {reason: okapi, context: "okapi"}}]}
  second:
    - {name: die, call: [{tool: die_once, args: {}}]}
    - {name: hand, call: [{tool: transfer_to_third, args: {reason: okapi}}]}
  third:
    - {name: hand, call: [{tool: transfer_to_fourth, args: {reason: okapi}}]}
  fourth:
    - {name: hand, call: [{tool: transfer_to_fifth, args: {reason: okapi}}]}
  fifth:
    - {name: leak, when: {user: leak}, call: [{tool: leak, args: {said: "${user}"}}]}
    - {name: end, say: "gazpacho for ${user}"}
  lead:
    - {name: ask, call: [{tool: delegate_to_scout, args: {objective: "okapi ${user}"}}]}
    - {name: end, say: gazpacho}
  scout:
    - {name: end, say: quokka}
"""


class Team(Stack):
    """A dispatcher and two workers that are traced."""

    receiver: OtlpReceiver

    async def run(self, prompt: str, agent: str | None = None, job: str | None = None) -> JobView:
        """Run a job to its end in a client that is traced as well. The last word of its prompt is its id."""
        request = uuid.uuid4().hex if job is None else job
        prompt = f"{prompt} {session_id_for(request)}.1"
        async with Client(self.url) as client:
            submitted = await client.submit(prompt, agent=agent, request_id=request)
            try:
                return await asyncio.wait_for(client.wait(submitted), 90)
            except TimeoutError:
                raise AssertionError(f"{await client.job(submitted)} {self.tails()}") from None

    def tails(self) -> str:
        """Return the last words of every pool."""
        return "\n".join(child.tail(30) for child in self.children)

    def trace_of(self, job: JobView, within_s: float = 60.0) -> list[SpanSeen]:
        """Return the spans of a job once they are all there: its root, the process that ended it, what caused each."""
        (root,) = self.receiver.wait_for(
            lambda span: span.name.startswith("invoke_workflow") and span.attributes["ekiden.job.id"] == job.id,
            within_s=within_s,
        )
        self.receiver.wait_for(lambda span: span.trace == root.trace and ends(job, span), within_s=within_s)
        sends = {id_ for span in self._spans_of(root) for _, id_, about in span.links if about["ekiden.link"] == "send"}
        self.receiver.wait_for(lambda span: span.id in sends, count=len(sends), within_s=within_s)
        return self._spans_of(root)

    def _spans_of(self, root: SpanSeen) -> list[SpanSeen]:
        return [span for span in self.receiver.spans if span.trace == root.trace]


def ends(job: JobView, span: SpanSeen) -> bool:
    """Tell whether the span is of the process that ended the job."""
    is_ours = span.attributes.get("messaging.message.conversation_id") == job.id
    return is_ours and span.attributes.get("ekiden.outcome") in ("answer", "failed")


@contextmanager
def team(collector: str, receiver: OtlpReceiver, variables: dict[str, str], workers: int = 1) -> Iterator[Team]:
    """Run pools that send to ``collector``, whose spans arrive at ``receiver``."""
    handoffs = dict(zip(AGENTS, (*AGENTS[1:], ""), strict=True))
    subagents = dict.fromkeys(handoffs, "") | {"lead": "scout", "scout": ""}
    agents = {
        name: AGENT.format(name=name, handoffs=f"{{to: {to}}}" if (to := handoffs.get(name)) else "", subagents=below)
        for name, below in subagents.items()
    }
    with ExitStack() as stay:
        made = stay.enter_context(stack(agents, SCRIPT))
        made.__class__ = Team
        assert isinstance(made, Team)
        made.receiver = receiver
        (made.folder / "marks").mkdir()
        environment = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector,
            "OTEL_BSP_SCHEDULE_DELAY": "100",
            "OTEL_METRIC_EXPORT_INTERVAL": "500",
            "MARKS": str(made.folder / "marks"),
            **variables,
        }
        patch = stay.enter_context(pytest.MonkeyPatch.context())
        for name, value in environment.items():
            patch.setenv(name, value)
        quick = {"lease_s": 4, "sweep_s": 0.3, "quarantine_from": 4}
        made.start("router", "ekiden.dispatch", module=APP, **quick)
        for _ in range(workers):
            made.start("worker", *QUEUES, module=APP, **quick)
        asyncio.run(ready(made, workers + 1))
        yield made


async def ready(made: Stack, pools: int) -> None:
    async with Client(made.url) as client:
        await made.ready(client, pools)
        deadline = time.monotonic() + PATIENCE_S
        while not await client.agents():  # else the first job is routed in a second attempt
            assert time.monotonic() < deadline, "no catalog"
            await asyncio.sleep(0.05)


@contextmanager
def rotel(receiver: OtlpReceiver) -> Iterator[str]:
    """Run a real collector as a second process, which sends on to ``receiver``."""
    package = pytest.importorskip("rotel")
    port, other = free_port(), free_port()
    command = [
        str(Path(package.__file__).parent / "rotel-agent"),
        "start",
        *("--otlp-http-endpoint", f"127.0.0.1:{port}", "--otlp-grpc-endpoint", f"127.0.0.1:{other}"),
        *("--exporter", "otlp", "--otlp-exporter-endpoint", receiver.url, "--otlp-exporter-protocol", "http"),
        *("--batch-timeout", "100ms"),
    ]
    try:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except OSError as error:
        pytest.skip(f"rotel's program does not run here: {error}")
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


@pytest.fixture(scope="module", params=["in process", "rotel"])
def chain(request: pytest.FixtureRequest) -> Iterator[tuple[Team, JobView, list[SpanSeen]]]:
    """A chain of five that was retried, killed and paused on its way, as a collector saw it."""
    with ExitStack() as stay:
        receiver = stay.enter_context(OtlpReceiver())
        collector = receiver.url if request.param == "in process" else stay.enter_context(rotel(receiver))
        made = stay.enter_context(team(collector, receiver, {}, workers=2))
        job = asyncio.run(made.run("zanzibar first", job="the chain"))  # the same words each time: a rule routes them
        assert job.status == "done", made.tails()
        yield made, job, made.trace_of(job)


Chain = tuple[Team, JobView, list[SpanSeen]]


def named(spans: list[SpanSeen], start: str) -> list[SpanSeen]:
    return sorted((span for span in spans if span.name.startswith(start)), key=lambda span: span.start)


def only(spans: list[SpanSeen], start: str) -> SpanSeen:
    (span,) = named(spans, start)
    return span


def test_a_job_is_one_trace_with_one_root(chain: Chain) -> None:
    _, _, spans = chain
    ids = {span.id for span in spans}
    roots = [span for span in spans if not span.parent]

    assert [root.name for root in roots] == ["invoke_workflow first"]
    assert len(ids) == len(spans), "no span comes twice"
    assert all(span.trace == roots[0].trace for span in spans)
    assert [span.name for span in spans if span.parent and span.parent not in ids] == [], "also the killed attempt's"
    assert max(depth(span, spans) for span in spans) <= 5


def depth(span: SpanSeen, spans: list[SpanSeen]) -> int:
    parent = next((one for one in spans if one.id == span.parent), None)
    return 1 + (depth(parent, spans) if parent else 0)


def test_the_root_has_the_times_of_the_job(chain: Chain) -> None:
    _, job, spans = chain
    root = only(spans, "invoke_workflow")
    assert root.start == job.created_ms * 1_000_000
    assert job.ended_ms is not None
    assert abs(root.end / 1e6 - job.ended_ms) < 10_000
    early = {span.name for span in spans if span.start < root.start}
    assert early <= {"send ekiden.dispatch"}, "only the client's send begins before the server knows of the job"
    assert root.attributes["ekiden.job.chain"] == list(AGENTS)


def test_every_delivery_hangs_at_the_root_and_links_to_its_send(chain: Chain) -> None:
    _, _, spans = chain
    root = only(spans, "invoke_workflow")
    sends = {span.id: span for span in named(spans, "send ")}
    deliveries = named(spans, "process ")

    assert len(sends) == 6, "one for each message: submit, route, four handoffs"
    for delivery in deliveries:
        (send,) = [sends[id_] for _, id_, about in delivery.links if about["ekiden.link"] == "send"]
        assert delivery.parent == root.id
        assert send.attributes["messaging.destination.name"] == delivery.attributes["messaging.destination.name"]
        assert delivery.attributes["messaging.message.id"] == send.attributes["messaging.message.id"]
    handoffs = {span.id for span in named(spans, "execute_tool transfer_to_") if not span.failed}
    assert sum(send.parent in handoffs for send in sends.values()) == 4
    assert only(spans, "send ekiden.dispatch").resource["service.name"] == "ekiden-client"


def test_a_death_a_retry_and_a_pause_are_seen(chain: Chain) -> None:
    _, _, spans = chain
    died, second = named(spans, "process ekiden.agent.second")
    assert died.attributes["ekiden.outcome"] == "lost"
    assert [id_ for _, id_, about in second.links if about["ekiden.link"] == "takeover"] == [died.id]
    interrupted = named(spans, "execute_tool die_once")
    assert [span.status for span in interrupted] == ["worker_lost", ""], "told by the worker that went on"
    assert died.resource["service.instance.id"] == second.resource["service.instance.id"]
    assert [name for name, _ in second.events] == ["ekiden.takeover"]
    assert second.attributes["ekiden.attempt"] >= 1

    retried = [span for span in named(spans, "chat") if any(name == "ekiden.retry" for name, _ in span.events)]
    assert [span.attributes["gen_ai.agent.name"] for span in retried] == ["third"]

    paused, resumed = named(spans, "process ekiden.agent.fourth")
    pause = only(spans, "suspended retry")
    assert paused.attributes["ekiden.outcome"] == "suspended"
    assert (paused.trace, paused.id) in [link[:2] for link in resumed.links]
    assert pause.parent == only(spans, "invoke_workflow").id
    assert pause.end - pause.start >= 200_000_000
    assert [span.status for span in named(spans, "chat") if span.failed] == ["ModelUnavailable"]


@pytest.mark.parametrize("agent", [None, "lead"])
def test_the_export_of_a_journal_is_the_trace_that_the_collector_got(chain: Chain, agent: str | None) -> None:
    """Routing, tools, handoffs, a retry after a killed leg, a pause; and a delegation."""
    made, job, spans = chain
    if agent is not None:
        job = asyncio.run(made.run("zanzibar", agent=agent))
        spans = made.trace_of(job)

    async def journals() -> dict[str, list[Entry]]:
        async with Client(made.url) as client:
            return await client.journals(job.id)

    document = otlp_trace(asyncio.run(journals()), 0, Prices(), content=False)
    only_live = same_trace(read_document(document), spans)
    assert [span.status for span in only_live] == ([] if agent else ["ModelUnavailable"]), "no record holds such a call"


COMMON = {"gen_ai.conversation.id"}
ATTRIBUTES: dict[str, tuple[int, dict[str, Any]]] = {
    "invoke_workflow first": (
        1,
        {"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": "first", "ekiden.job.status": "done"},
    ),
    "send ekiden.dispatch": (4, {"messaging.system": "celery", "messaging.operation.type": "send"}),
    "process ekiden.dispatch": (
        5,
        {"messaging.operation.type": "process", "ekiden.leg": 0, "ekiden.outcome": "transfer"},
    ),
    "route rule": (1, {"ekiden.route.stage": "rule", "gen_ai.transfer.target.name": "first"}),
    "process ekiden.agent.first": (5, {"messaging.operation.name": "process", "ekiden.attempt": 1, "ekiden.leg": 1}),
    "invoke_agent first": (
        1,
        {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "first",
            "gen_ai.request.model": "scripted",
            "gen_ai.provider.name": "ekiden.scripted",
        },
    ),
    "chat scripted": (
        3,
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "ekiden.scripted",
            "gen_ai.request.model": "scripted",
        },
    ),
    "execute_tool look": (
        1,
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "look",
            "gen_ai.tool.type": "function",
            "gen_ai.agent.name": "first",
        },
    ),
    "execute_tool transfer_to_second second": (
        1,
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "transfer_to_second",
            "gen_ai.transfer.mode": "pass_control",
            "gen_ai.transfer.target.name": "second",
            "ekiden.handoff.depth": 1,
        },
    ),
    "execute_tool _OTHER": (1, {"error.type": "UNKNOWN_AGENT", "ekiden.handoff.refused": "UNKNOWN_AGENT"}),
    "suspended retry": (1, {"ekiden.suspended.cause": "retry"}),
}


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_spans_carry_what_the_conventions_ask_for(chain: Chain, name: str) -> None:
    _, job, spans = chain
    kind, wanted = ATTRIBUTES[name]
    found = [span for span in spans if span.name == name]
    if name.startswith("process "):  # the dispatcher may have had to wait for its catalog
        found = [span for span in found if span.attributes["ekiden.outcome"] != "suspended"]
    assert found, name
    for span in found:
        assert span.kind == kind
        assert span.attributes.items() >= wanted.items()
        assert span.attributes["gen_ai.conversation.id"] == session_of(job.id)


def test_parallel_tools_are_siblings_of_their_model_call(chain: Chain) -> None:
    _, _, spans = chain
    agent = only(spans, "invoke_agent first")
    looks = named(spans, "execute_tool look")
    calls = [span for span in named(spans, "chat") if span.parent == agent.id]
    assert [look.parent for look in looks] == [agent.id, agent.id]
    assert len({look.attributes["gen_ai.tool.call.id"] for look in looks}) == 2
    for call in calls:
        assert call.attributes["gen_ai.response.finish_reasons"] == ["stop"]
        assert call.attributes["gen_ai.usage.output_tokens"] >= 0
    assert agent.attributes["gen_ai.usage.input_tokens"] == sum(
        call.attributes["gen_ai.usage.input_tokens"] for call in calls
    )
    assert only(spans, "process ekiden.agent.first").attributes["ekiden.queue.wait_ms"] < 60_000


def test_a_delegated_job_belongs_to_the_trace_of_the_one_that_waits_for_it(chain: Chain) -> None:
    made, _, _ = chain
    job = asyncio.run(made.run("zanzibar", agent="lead"))
    assert (job.status, job.result) == ("done", "gazpacho")
    spans = made.trace_of(job)
    (root,) = [span for span in spans if not span.parent]
    child, call = only(spans, "invoke_workflow scout"), only(spans, "execute_tool delegate_to_scout")

    assert (root.name, child.parent) == ("invoke_workflow lead", root.id)
    assert [span.name for span in spans if span.parent and span.parent not in {one.id for one in spans}] == []
    assert call.attributes["ekiden.child.id"] == child.attributes["ekiden.job.id"] == f"{job.id}.1"
    assert call.parent in {span.id for span in named(spans, "invoke_agent lead")}
    assert call.end - call.start >= child.end - child.start
    assert [id_ for _, id_, about in call.links if about["ekiden.link"] == "child"] == [child.id]
    assert only(spans, "suspended children").parent == root.id
    sends = {span.id for span in named(spans, "send ")}
    assert all(any(id_ in sends for _, id_, _ in span.links) for span in named(spans, "process "))


def test_logs_name_the_trace(chain: Chain) -> None:
    made, job, spans = chain
    said = [json.loads(line) for child in made.children for line in child.tail(1_000).splitlines() if line[:1] == "{"]
    retries = [line for line in said if line["event"] == "model_retry" and line["job"] == job.id]
    (retry,) = [line for line in retries if line["agent"] == "third"]
    about = {"session": session_of(job.id), "job": job.id, "leg": 3, "trace_id": spans[0].trace}
    assert retry.items() >= about.items()


def test_no_word_of_anybody_leaves_unless_asked_for(chain: Chain) -> None:
    made, _, spans = chain
    everything = b"".join(made.receiver.raw)
    assert spans
    assert [word for word in WORDS if word.encode() in everything] == []


def test_metrics_tell_the_same_story(chain: Chain) -> None:
    made, _, _ = chain
    deadline = time.monotonic() + PATIENCE_S
    wanted = {
        "gen_ai.client.operation.duration",
        "gen_ai.client.token.usage",
        "ekiden.turns",
        "ekiden.handoffs",
        "ekiden.handoffs.refused",
        "ekiden.routes",
        "ekiden.tokens",
        "ekiden.cost",
        "ekiden.tool.calls",
        "ekiden.legs.in_flight",
        "ekiden.legs.suspended",
        "ekiden.jobs.suspended",
        "ekiden.recoveries",
        "ekiden.jobs.ended",
        "ekiden.queue.depth",
        "ekiden.queue.age",
        "ekiden.queue.wait",
        "ekiden.model.waits",
    }
    while missing := wanted - {metric.name for metric in made.receiver.metrics}:
        assert time.monotonic() < deadline, missing
        time.sleep(0.05)


def test_whoever_ends_a_job_writes_its_root(chain: Chain) -> None:
    made, _, _ = chain

    async def cancelled() -> JobView:
        async with Client(made.url) as client:
            job = await client.submit(f"{session_id_for('to stop')}.1", agent="fourth")  # kills no worker of the others
            while (await client.cancel(job)) == "flagged":
                await client.wait(job)
            return await client.job(job)

    job = asyncio.run(cancelled())
    (root,) = made.receiver.wait_for(lambda span: span.attributes.get("ekiden.job.id") == job.id and not span.parent)
    assert (root.attributes["ekiden.job.status"], root.failed) == (job.status, job.status != "done")


def test_no_planted_secret_leaves_even_with_content_on(tmp_path: Path) -> None:
    planted = (
        f"key {SECRETS['key']} Authorization: {SECRETS['bearer']} postgres://bob:{SECRETS['url']}@db/x "
        f"{SECRETS['pattern']} -----BEGIN PRIVATE KEY-----\n{SECRETS['private key']}\n-----END PRIVATE KEY----- "
        "leak zanzibar"
    )
    variables = {CONTENT: "true", "PLANTED_TOKEN": SECRETS["environment"], "EKIDEN_REDACT": "ACME-[0-9-]+"}
    with OtlpReceiver() as receiver, team(receiver.url, receiver, variables) as made:
        job = asyncio.run(made.run(planted, agent="fifth"))
        spans = made.trace_of(job)
        logs = "".join(child.tail(1_000) for child in made.children)
    everything = b"".join(receiver.raw).decode(errors="replace")

    assert job.result is not None
    assert SECRETS["key"] in job.result, "the job itself works with what it was given"
    assert "zanzibar" in everything
    assert "gazpacho" in everything, "content is on"
    asked = named(spans, "chat")[0].attributes
    assert asked["gen_ai.input.messages"].count("[redacted]") >= 4
    leaked = named(spans, "execute_tool leak")[0]
    assert leaked.failed
    assert "[redacted]" in leaked.attributes["gen_ai.tool.call.result"]
    assert "tool failed unexpectedly" in logs
    for text in (everything, logs):
        assert [name for name, secret in SECRETS.items() if secret.removeprefix("Bearer ") in text] == []


@pytest.mark.parametrize("mode", ["absent", "refusing", "silent", "slow"])
def test_a_collector_in_trouble_costs_only_its_spans(mode: str) -> None:
    with OtlpReceiver("good" if mode == "absent" else mode) as receiver:
        collector = f"http://127.0.0.1:{free_port()}" if mode == "absent" else receiver.url
        with team(collector, receiver, {"OTEL_EXPORTER_OTLP_TIMEOUT": "40"} if mode == "silent" else {}) as made:
            began = time.monotonic()
            jobs = asyncio.run(two_jobs(made))
            took_s = time.monotonic() - began
            began = time.monotonic()
            with ThreadPoolExecutor() as threads:
                codes = list(threads.map(lambda child: child.stop(grace_s=60), made.children))
            stopped_s = time.monotonic() - began
            logs = [child.tail(1_000) for child in made.children]
    assert min((job.ended_ms or 0) - job.created_ms for job in jobs) < 30_000, "less than one export that hangs"
    assert took_s < 30, "the client's exit included"
    assert codes == [0, 0]
    assert stopped_s < 30
    wanted = 0 if mode in ("slow", "silent") else 1  # nobody has waited for it long enough to know
    assert [log.count("collector_away") for log in logs] == [wanted, wanted], "\n".join(logs)


async def two_jobs(made: Team) -> list[JobView]:
    async with Client(made.url) as client:
        prompts = [f"zanzibar {session_id_for(name)}.1" for name in ("one", "two")]
        return [await client.wait(await client.submit(prompt, agent="fifth")) for prompt in prompts]
