"""Which agents requests go to where no model answers: what a worker announces, and what a dispatcher makes of it."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from ekiden.dispatcher.playable import Playable, playable_of, why_not_all
from ekiden.dispatcher.routing.base import RoutingResult
from ekiden.dispatcher.unrouted import nobody
from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.llm.models import ModelValues
from ekiden.shared.llm.stand_in import announcement, played_by
from ekiden.shared.packs import shipped_agents_dir
from ekiden.shared.stores.views import PoolView
from tests.unit.test_dispatch import CATALOG, catalog_of

KEY = {"GEMINI_API_KEY": "AIza-not-a-key"}
ANSWERS = "agents: {%s: [{name: a, say: fine}]}"
SAYS_NO = "agents: {%s: [{name: a, say: I cannot, finish: unfinished}]}"


def announced(folder: Path, *scripts: str, env: Mapping[str, str] | None = None) -> dict[str, str]:
    for number, text in enumerate(scripts):
        (folder / f"{number}.yaml").write_text(text)
    return announcement(ModelValues(scripts_dir=folder), env or {})


def plays(*workers: Mapping[str, str]) -> set[str] | None:
    found = played_by(workers)
    return None if found is None else set(found)


def test_a_worker_without_a_key_names_the_agents_whose_script_says_more_than_no(tmp_path: Path) -> None:
    assert plays(announced(tmp_path, ANSWERS % "billing", SAYS_NO % "debugger")) == {"billing"}
    assert announced(tmp_path, env=KEY) == {}, "a model answers for everybody"


def test_a_script_for_everybody_plays_everybody_unless_it_only_says_no(tmp_path: Path) -> None:
    assert plays(announced(tmp_path, SAYS_NO % "'*'")) == set()
    assert plays(announced(tmp_path, ANSWERS % "'*'")) is None


def test_scripts_that_cannot_be_read_keep_nobody_out(tmp_path: Path) -> None:
    assert plays(announced(tmp_path, "agents: [")) is None


def test_what_one_worker_can_play_can_be_played_and_one_with_a_model_plays_all(tmp_path: Path) -> None:
    first, second = {"plays": '["billing"]'}, {"plays": '["债务"]'}
    assert plays(first, second) == {"billing", "债务"}
    assert plays(first, {}) is None
    assert plays() is None


def test_the_shipped_scripts_play_a_team_that_repairs() -> None:
    shipped = announcement(ModelValues(scripts_dir=shipped_agents_dir() / "_scripts"), {})
    team = {"code-fixer", "codebase-investigator", "debugger", "reviewer", "router-agent"}
    assert plays(shipped) == team


def test_who_cannot_be_played_is_left_out_and_the_router_s_own_agent_stays() -> None:
    left = playable_of(CATALOG, frozenset({"billing"}))
    assert left.names == ("billing", "router-agent")
    assert left.digests["billing"] == CATALOG.digests["billing"]
    assert playable_of(CATALOG, None) is CATALOG


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ({"a1"}, "only a1 can be played, by a scripted stand-in: a key (`ekiden models` names it), or a script of "),
        (
            set(),
            "nobody can be played: a key (`ekiden models` names it), or a script of theirs (`ekiden.scripts_dir`: ",
        ),
    ],
)
def test_it_is_said_who_cannot_be_played_and_what_would_change_that(names: set[str], says: str) -> None:
    catalog = catalog_of(*(f"a{number}" for number in range(1, 9)))
    told = why_not_all(catalog, playable_of(catalog, frozenset(names)))
    assert says in told
    assert told.endswith(f"a5 and {3 - len(names)} others" if not names else "a2, a3, a4, a5, a6 and 2 others")
    assert why_not_all(catalog, catalog) == ""


def test_agents_that_nobody_can_play_are_not_said_to_be_missing() -> None:
    catalog, result = catalog_of("a1"), RoutingResult()
    assert "no agents are loaded" not in nobody(playable_of(catalog, frozenset()), result, loaded=catalog)
    assert "no agents are loaded" in nobody(catalog_of(), result, loaded=catalog_of())


def looking(*looks: Sequence[PoolView], wait_s: float = 5.0) -> tuple[Playable, Iterator[Sequence[PoolView]]]:
    left = iter(looks)

    async def pools() -> Sequence[PoolView]:
        return next(left)

    return Playable(pools, wait_s), left


def test_the_first_request_waits_for_a_worker_that_is_started_with_the_dispatcher() -> None:
    worker = PoolView("w", "worker", (), extra={"plays": '["billing"]'})
    dispatcher = PoolView("d", "dispatcher", ())
    playable, left = looking([], [dispatcher], [dispatcher, worker], [])

    async def both() -> tuple[Catalog, Catalog]:
        return await playable(CATALOG), await playable(CATALOG)

    first, second = asyncio.run(both())
    assert first.names == second.names == ("billing", "router-agent")
    assert list(left) == [[]], "a look counts for a while"


def test_without_a_worker_everybody_may_be_asked() -> None:
    playable, _ = looking([], wait_s=0.0)
    assert asyncio.run(playable(CATALOG)) is CATALOG
