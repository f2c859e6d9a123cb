"""The Compose file: Docker itself cannot run where these tests do, so it is held against the Compose specification."""

import json
from pathlib import Path

import pytest
import yaml
from compose_spec import PyCompose

from shared.definitions.loader import load_folder, shipped_agents_dir

ROOT = Path(__file__).parents[1]
COMPOSE = ROOT / "docker-compose.yml"


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
    shipped = {agent.name for agent in load_folder(shipped_agents_dir(), "global").definitions}
    assert sorted(served) == sorted(shipped)


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
