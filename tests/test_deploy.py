"""The deployment: Docker cannot run where these tests do, so its files are held against what is documented of them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose

from ekiden.shared.definitions.loader import load_folder
from ekiden.shared.packs import shipped_agents_dir
from ekiden.shared.telemetry import metrics

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
COMPOSE = ROOT / "docker-compose.yml"

COLLECTOR_KEYS: dict[str, Any] = {
    "receivers": {"otlp": {"protocols": {"grpc": {"endpoint"}, "http": {"endpoint"}}}},
    "processors": {
        "memory_limiter": {"check_interval", "limit_mib", "spike_limit_mib", "limit_percentage"},
        "batch": {"timeout", "send_batch_size", "send_batch_max_size"},
    },
    "exporters": {
        "otlp": {"endpoint": None, "tls": {"insecure", "ca_file"}},
        "prometheus": {"endpoint", "metric_expiration", "namespace", "const_labels", "send_timestamps"},
    },
    "service": {
        "pipelines": {
            "traces": {"receivers", "processors", "exporters"},
            "metrics": {"receivers", "processors", "exporters"},
        }
    },
}
"""What the collector's documentation knows of the components that we use: names, or names with what is below them."""
UNITS = {"s": "_seconds", "ms": "_milliseconds", "By": "_bytes"}
METRIC = re.compile(r"\b(?:ekiden|gen_ai)_[A-Za-z0-9_]+(?=[{\[)]|\s|$)")


def parsed(text: str) -> PyCompose:
    """Parse with YAML merges applied; raises for what the specification does not know."""
    return PyCompose.from_json(json.dumps(yaml.safe_load(text)))


def test_the_compose_file_follows_the_specification() -> None:
    compose = parsed(COMPOSE.read_text())
    compose.validate()
    assert compose.get_service("valkey") is not None


def test_the_check_would_notice_a_wrong_key() -> None:
    with pytest.raises(Exception, match=r"helthcheck|valkey"):
        parsed(COMPOSE.read_text().replace("healthcheck:", "helthcheck:")).validate()


def test_every_shipped_agent_is_served_by_exactly_one_service() -> None:
    services = yaml.safe_load(COMPOSE.read_text())["services"].values()
    commands = [service["command"] for service in services if "--agents" in service.get("command", [])]
    served = [agent for command in commands for agent in command[command.index("--agents") + 1].split(",")]
    definitions = load_folder(shipped_agents_dir(), "global").definitions
    shipped = {agent.name for agent in definitions if agent.scope != "system"}
    assert sorted(served) == sorted(shipped)


def test_a_deploy_puts_the_images_agents_in_force() -> None:
    assert services()["dispatcher"]["command"] == ["dispatcher", "--publish"]


def test_the_server_keeps_jobs_and_is_reachable_from_this_machine_alone() -> None:
    valkey = yaml.safe_load(COMPOSE.read_text())["services"]["valkey"]
    options = " ".join(valkey["command"])
    assert "--appendonly yes" in options
    assert "--maxmemory-policy noeviction" in options
    assert all(port.startswith("127.0.0.1:") for port in valkey["ports"])


def test_the_image_holds_what_the_project_is_built_from() -> None:
    text = (ROOT / "deploy" / "Containerfile").read_text()
    for part in ("shared", "dispatcher", "workers", "agents", "pyproject.toml", "constraints.txt", "README.md"):
        assert part in text
    assert "USER ekiden" in text


def unknown_keys(value: Any, known: Any, where: str = "") -> list[str]:
    """Every key that the documentation does not know."""
    if known is None or not isinstance(value, dict):
        return []
    wrong = [f"{where}{key}" for key in value if key not in known]
    below = known if isinstance(known, dict) else {}
    return wrong + [
        name for key in value if key in below for name in unknown_keys(value[key], below[key], f"{where}{key}.")
    ]


def test_the_collector_file_uses_documented_keys_only() -> None:
    config = yaml.safe_load((DEPLOY / "otel-collector.yaml").read_text())
    assert unknown_keys(config, COLLECTOR_KEYS) == []
    assert unknown_keys({"receivers": {"otlp": {"protocol": {}}}}, COLLECTOR_KEYS) == ["receivers.otlp.protocol"]


def test_the_collectors_pipelines_use_what_is_configured_and_all_of_it() -> None:
    config = yaml.safe_load((DEPLOY / "otel-collector.yaml").read_text())
    pipelines = config["service"]["pipelines"].values()
    for kind in ("receivers", "processors", "exporters"):
        assert {name for pipeline in pipelines for name in pipeline[kind]} == set(config[kind])
    for pipeline in pipelines:
        assert pipeline["processors"] == ["memory_limiter", "batch"], "memory first: the rest comes behind it"


def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())["services"]
    return found


def test_every_image_has_a_version_and_every_port_is_on_loopback() -> None:
    for name, service in services().items():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name
        if "build" not in service:
            assert re.search(r":v?\d+\.\d+", service["image"]), service["image"]


def test_every_pool_sends_its_traces_to_the_collector_and_waits_for_nothing_but_the_server() -> None:
    pools = {name: service for name, service in services().items() if "build" in service}
    assert set(pools) >= {"dispatcher", "fixers", "reviewers", "writers"}
    for service in pools.values():
        assert service["environment"]["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://otel-collector:4318"
        assert list(service["depends_on"]) == ["valkey"]


def test_every_file_that_is_mounted_exists() -> None:
    mounts = [mount for service in services().values() for mount in service.get("volumes", [])]
    files = [mount.split(":")[0] for mount in mounts if mount.startswith("./")]
    assert len(files) == 5
    assert [file for file in files if not (ROOT / file).is_file()] == []


def test_addresses_in_the_configuration_are_services_and_their_ports() -> None:
    texts = [
        (DEPLOY / name).read_text() for name in ("otel-collector.yaml", "prometheus.yaml", "grafana/datasources.yaml")
    ]
    found = {match for text in texts for match in re.findall(r"\b([a-z-]+):(\d{4,5})\b", text)}
    expected = {("jaeger", "4317"), ("otel-collector", "8889"), ("prometheus", "9090"), ("jaeger", "16686")}
    assert found == expected
    assert {name for name, _ in found} <= set(services())


def test_prometheus_reads_the_collector_and_keeps_the_senders_names() -> None:
    config = yaml.safe_load((DEPLOY / "prometheus.yaml").read_text())
    (job,) = config["scrape_configs"]
    exporter = yaml.safe_load((DEPLOY / "otel-collector.yaml").read_text())["exporters"]["prometheus"]
    port = exporter["endpoint"].rpartition(":")[2]
    assert job["static_configs"] == [{"targets": [f"otel-collector:{port}"]}]
    assert job["honor_labels"] is True
    assert set(config) <= {"global", "scrape_configs", "rule_files", "alerting"}


def test_grafana_finds_its_sources_and_its_dashboard() -> None:
    sources = yaml.safe_load((DEPLOY / "grafana/datasources.yaml").read_text())["datasources"]
    (provider,) = yaml.safe_load((DEPLOY / "grafana/dashboards.yaml").read_text())["providers"]
    mounts = [mount.split(":")[1] for mount in services()["grafana"]["volumes"]]
    assert any(mount.startswith(provider["options"]["path"] + "/") for mount in mounts)
    used = {panel["datasource"]["uid"] for panel in dashboard()["panels"] if panel["type"] != "row"}
    assert used <= {source["uid"] for source in sources}


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DEPLOY / "grafana/ekiden.json").read_text())
    return found


def expressions() -> Iterator[tuple[str, str]]:
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]


class Instruments:
    """Stands for OpenTelemetry's meters: remembers what is created, by its name in Prometheus."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.names: set[str] = set()
        MADE.append(self)

    def get_meter(self, *_: Any) -> "Instruments":
        return self

    def _remember(self, name: str, unit: str, *suffixes: str) -> None:
        base = name.replace(".", "_") + ("" if unit.startswith("{") else UNITS.get(unit, f"_{unit}"))
        self.names |= {base + suffix for suffix in suffixes}

    def create_counter(self, name: str, unit: str = "", description: str = "") -> None:
        self._remember(name, unit, "_total")

    def create_up_down_counter(self, name: str, unit: str = "", description: str = "") -> None:
        self._remember(name, unit, "")

    create_gauge = create_observable_gauge = create_up_down_counter

    def create_observable_counter(self, name: str, callbacks: Any, unit: str = "", description: str = "") -> None:
        self._remember(name, unit, "_total")

    def create_observable_up_down_counter(
        self, name: str, callbacks: Any, unit: str = "", description: str = ""
    ) -> None:
        self._remember(name, unit, "")

    def create_histogram(self, name: str, unit: str = "", description: str = "", **_: Any) -> None:
        self._remember(name, unit, "_bucket", "_sum", "_count")


MADE: list[Instruments] = []


def emitted(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Every name under which Prometheus may know a metric of ours."""
    monkeypatch.setattr(metrics, "MeterProvider", Instruments)
    monkeypatch.setattr(metrics.Meters, "_readers", lambda *_: [])
    metrics.Meters(None, {}, None, str)  # type: ignore[arg-type]  # neither is looked at without readers
    return MADE[-1].names


def test_the_dashboard_asks_only_for_metrics_that_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [re.sub(r"by \([^)]*\)", "", text) for _, text in expressions()]  # labels are no metrics
    assert {name for text in texts for name in METRIC.findall(text)} - emitted(monkeypatch) == set()


def test_the_dashboard_shows_every_metric_that_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = " ".join(text for _, text in expressions())
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in emitted(monkeypatch)}
    assert [name for name in sorted(families) if name not in shown] == []


def test_expressions_are_balanced_and_panels_do_not_overlap() -> None:
    for title, text in expressions():
        for pair in ("()", "[]", "{}"):
            assert text.count(pair[0]) == text.count(pair[1]), title
    cells = [
        (column, line)
        for place in (panel["gridPos"] for panel in dashboard()["panels"])
        for column in range(place["x"], place["x"] + place["w"])
        for line in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    ids = [panel["id"] for panel in dashboard()["panels"]]
    assert len(ids) == len(set(ids))
