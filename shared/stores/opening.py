"""Opens every store on one connection."""

from contextlib import suppress
from dataclasses import dataclass, field

from ekiden.shared.errors import NotPermitted
from ekiden.shared.signing import OFF, Signing
from ekiden.shared.stores.artifacts import RedisArtifactStore
from ekiden.shared.stores.catalogs import RedisCatalogStore
from ekiden.shared.stores.checks import check, health_problem, ping
from ekiden.shared.stores.circuits import RedisCircuitStore
from ekiden.shared.stores.dead_letters import RedisDeadLetterStore
from ekiden.shared.stores.durability import Durability, Identity, durability_of, identity_of
from ekiden.shared.stores.forgetting import RedisForgetting
from ekiden.shared.stores.forks import RedisForkStore
from ekiden.shared.stores.intake import RedisIntakeStore
from ekiden.shared.stores.job_ends import RedisEnds
from ekiden.shared.stores.jobs import RedisJobStore
from ekiden.shared.stores.lessons import RedisLessonStore
from ekiden.shared.stores.listings import RedisListingStore
from ekiden.shared.stores.live import RedisLiveStore
from ekiden.shared.stores.memories import RedisMemoryStore
from ekiden.shared.stores.model_limits import RedisModelLimitStore
from ekiden.shared.stores.pools import RedisPoolStore
from ekiden.shared.stores.redis import Redis, connect, translated
from ekiden.shared.stores.replication import ReplicaWait
from ekiden.shared.stores.sessions import RedisSessionStore
from ekiden.shared.stores.usage import RedisUsageStore

__all__ = ["Stores", "open_stores"]


@dataclass(frozen=True)
class Stores:
    """All stores of one server, for one event loop."""

    url: str
    client: Redis
    jobs: RedisJobStore
    sessions: RedisSessionStore
    live: RedisLiveStore
    catalogs: RedisCatalogStore
    pools: RedisPoolStore
    dead_letters: RedisDeadLetterStore
    intake: RedisIntakeStore
    ends: RedisEnds
    listings: RedisListingStore
    artifacts: RedisArtifactStore
    lessons: RedisLessonStore
    model_limits: RedisModelLimitStore
    usage: RedisUsageStore
    circuits: RedisCircuitStore
    memories: RedisMemoryStore
    forgetting: RedisForgetting
    forks: RedisForkStore
    signing: Signing
    _users: list[str] = field(default_factory=list)

    @classmethod
    def on(
        cls, client: Redis, url: str = "", confirming: ReplicaWait | None = None, signing: Signing = OFF
    ) -> "Stores":
        """Return the stores that use ``client``."""
        return cls(
            url,
            client,
            RedisJobStore(client, confirming, signing),
            RedisSessionStore(client),
            RedisLiveStore(client),
            RedisCatalogStore(client, signing),
            RedisPoolStore(client),
            RedisDeadLetterStore(client),
            RedisIntakeStore(client),
            RedisEnds(client),
            RedisListingStore(client),
            RedisArtifactStore(client),
            RedisLessonStore(client, signing),
            RedisModelLimitStore(client),
            RedisUsageStore(client),
            RedisCircuitStore(client),
            RedisMemoryStore(client, signing),
            RedisForgetting(client, RedisLessonStore(client, signing)),
            RedisForkStore(client, confirming, signing),
            signing,
        )

    async def ping(self) -> None:
        """Raise ``StoreUnavailable`` unless the server answers, ``ConfigurationError`` if it wants another address."""
        await ping(self.client, self.url)

    async def check(self, wait_replicas: int = 0) -> list[str]:
        """Return what to warn those of who run pools; raise ``ConfigurationError`` if the server would lose jobs."""
        return await check(self.client, self.url, wait_replicas)

    async def identity(self) -> Identity | None:
        """Return which server answers, and how far it has come; None: it does not tell."""
        return await identity_of(self.client)

    async def durability(self) -> Durability:
        """Return what the server tells of how it keeps what it has acknowledged."""
        return await durability_of(self.client)

    async def health_problem(self) -> str | None:
        """Say why the server takes no writes just now; None when it does."""
        return await health_problem(self.client)

    async def now_ms(self) -> int:
        """Return the server's clock, in ms since the epoch."""
        seconds, micros = await translated(self.client.time)()
        return int(seconds) * 1000 + int(micros) // 1000

    async def user(self) -> str:
        """Return who this connection is to the server; empty: it has one user for all, or does not tell.

        Asked once: the address says whose connection it is, however often it is opened anew.
        """
        if not self._users:
            self._users.append(await self._asked_user())
        return self._users[0]

    async def _asked_user(self) -> str:
        with suppress(NotPermitted):
            name = str(await translated(self.client.acl_whoami)())
            return "" if name == "default" else name
        return ""

    async def server_pid(self) -> int:
        """Return the server's process id."""
        return int((await translated(self.client.info)("server"))["process_id"])

    async def close(self) -> None:
        """Close the connections."""
        self.ends.close()
        await self.client.aclose()


def open_stores(
    url: str,
    *,
    retries: int = 8,
    connections: int = 16,
    confirming: ReplicaWait | None = None,
    signing: Signing = OFF,
) -> Stores:
    """Return the stores at ``url``; they connect at first use. One event loop only.

    Args:
        url: Where the server is.
        retries: How often a command is sent again after a lost connection.
        connections: How many are open at a time.
        confirming: How many replicas must have a change before it counts; None: nobody waits for any.
        signing: Signs what is stored, and checks catalogs; who runs legs checks jobs.
    """
    client = connect(url, retries=retries, connections=connections)
    return Stores.on(client, url, confirming, signing)
