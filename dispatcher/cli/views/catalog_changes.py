"""What the ``catalog`` commands ask of a server, and what comes back."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ekiden.dispatcher.publishing import Difference, difference, lost_tools, publish, whoami
from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.errors import AmbiguousId, NoCatalog, UnreadableDefinition
from ekiden.shared.stores.catalogs import InForce, Publication, RedisCatalogStore

__all__ = ["Agent", "CatalogChange", "CatalogView", "publish_files", "read_catalog", "roll_back"]


@dataclass(frozen=True)
class CatalogChange:
    """What came into force. ``is_new`` False: it was already, nothing was changed."""

    digest: str
    replaced: str
    """The digest of the one before; empty: there was none."""
    agents: int
    differs: Difference
    lost: Mapping[str, Sequence[str]]
    """Agents that may not use what they might before -> which tools."""
    is_new: bool

    def as_json(self) -> dict[str, Any]:
        """Return it as one JSON object."""
        kinds = {"added": self.differs.added, "removed": self.differs.removed, "changed": self.differs.changed}
        return {
            "catalog": self.digest,
            "replaced": self.replaced or None if self.is_new else None,
            "published": self.is_new,
            "agents": self.agents,
            **{kind: list(names) for kind, names in kinds.items()},
            "lost_tools": {name: list(tools) for name, tools in self.lost.items()},
        }


@dataclass(frozen=True)
class Agent:
    """An agent of a catalog. ``definition`` is the digest that the store has it by."""

    name: str
    title: str
    description: str
    model: str | None
    definition: str


@dataclass(frozen=True)
class CatalogView:
    """A catalog as it is stored."""

    digest: str
    is_in_force: bool
    publication: Publication | None
    """Its last one; None where that was too long ago to be noted."""
    agents: tuple[Agent, ...]

    def as_json(self) -> dict[str, Any]:
        """Return it as one JSON object."""
        fields = {"catalog": self.digest, "in_force": self.is_in_force, "agents": list(map(asdict, self.agents))}
        return {**fields, "published": self.publication and asdict(self.publication)}


async def publish_files(catalogs: RedisCatalogStore, catalog: Catalog, expected: str | None) -> CatalogChange:
    """Put ``catalog`` in force.

    Args:
        catalogs: Where.
        catalog: What.
        expected: A beginning of the digest that must be in force; empty: none must be; None: whichever is.

    Raises ``CatalogReplaced``: another one is in force, also when that came there just now.
    """
    before = await catalogs.to_replace()
    digest = before.digest if before else None
    if expected is not None and not (digest and expected and digest.startswith(expected)):
        digest = expected or None
    had = await _agents_of(catalogs, before)
    is_new = await publish(catalogs, catalog, digest, "catalog publish")
    lost = lost_tools(had, catalog.agents)
    return _change(catalog.digest, before, dict(catalog.digests), lost, is_new=is_new)


async def roll_back(catalogs: RedisCatalogStore, wanted: str | None) -> CatalogChange:
    """Put a catalog in force again: the one that begins so; None: the one that was replaced by the present one.

    Raises ``NoCatalog`` where there is none before, or it is not stored any more, and ``CatalogReplaced``.
    """
    before = await catalogs.to_replace()
    if before is None:
        raise NoCatalog("no catalog is in force: there is nothing to roll back; `ekiden catalog publish`")
    digest = await _resolved(catalogs, wanted) if wanted else await _previous(catalogs, before.digest)
    has = InForce(digest, await catalogs.manifest(digest))
    lost = lost_tools(await _agents_of(catalogs, before), await _agents_of(catalogs, has))
    is_new = await catalogs.roll_back(digest, replaces=before.digest, by=whoami(), source="catalog rollback")
    return _change(digest, before, has.manifest, lost, is_new=is_new)


async def read_catalog(catalogs: RedisCatalogStore, wanted: str | None) -> CatalogView:
    """Return the catalog that begins so; None: the one in force. Raises ``NoCatalog``."""
    in_force = await catalogs.current()
    digest = await _resolved(catalogs, wanted) if wanted else in_force
    if digest is None:
        raise NoCatalog("no catalog is in force: `ekiden catalog publish`, or start `ekiden dispatcher`")
    manifest, definitions = await catalogs.definitions(digest)
    agents = []
    for name, stored_as in sorted(manifest.items()):
        agent = AgentDefinition.from_json(definitions[stored_as])
        agents.append(Agent(name, agent.title, agent.description, agent.model, stored_as))
    publication = next((one for one in await catalogs.history() if one.digest == digest), None)
    return CatalogView(digest, digest == in_force, publication, tuple(agents))


def _change(
    digest: str, before: InForce | None, manifest: dict[str, str], lost: Mapping[str, Sequence[str]], *, is_new: bool
) -> CatalogChange:
    differs = difference(before.manifest if before else {}, manifest)
    return CatalogChange(digest, before.digest if before else "", len(manifest), differs, lost, is_new)


async def _agents_of(catalogs: RedisCatalogStore, catalog: InForce | None) -> Mapping[str, AgentDefinition]:
    """Return the agents of a catalog; none where it cannot be read, or a newer version has written it."""
    if catalog is None or not catalog.manifest:
        return {}
    try:
        return Catalog.from_store(*await catalogs.definitions(catalog.digest)).agents
    except (NoCatalog, UnreadableDefinition):
        return {}


async def _resolved(catalogs: RedisCatalogStore, beginning: str) -> str:
    history = await catalogs.history()
    known = {digest for one in history for digest in (one.digest, one.replaced)} | {await catalogs.current() or ""}
    found = sorted(digest for digest in known if digest.startswith(beginning))
    if len(found) > 1:
        raise AmbiguousId(f"{beginning!r} begins several catalogs: {', '.join(digest[:16] for digest in found)}")
    return found[0] if found else beginning  # one that was published longer ago may be given in full


async def _previous(catalogs: RedisCatalogStore, digest: str) -> str:
    newest = next(iter(await catalogs.history(1)), None)
    if newest is None or newest.digest != digest or not newest.replaced:
        raise NoCatalog(f"catalog {digest[:12]} has replaced none: name one of `ekiden catalog history`")
    return newest.replaced
