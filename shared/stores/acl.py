"""What each kind of client needs of the server, as rules of its access control list (ACL).

Scripts run with the rights of whoever calls them. So who may change a job by a script may change every job by any
command, and there is no way to let somebody submit by a script and no more: a submitter pushes requests to the intake,
and a dispatcher runs the scripts for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ekiden.shared.stores import keys

__all__ = ["ROLES", "Role"]

_CONNECTS = ("ping", "select", "info", "time", "subscribe", "unsubscribe")
"""Not ``CLIENT SETINFO``, which redis-py can do without: Redis 7.0 does not know it, and refuses a rule of it."""
_READS = (
    *("exists", "get", "hget", "hgetall", "hkeys", "hmget", "hvals", "lindex", "llen", "mget", "smembers"),
    *("xlen", "xrange", "xread", "xrevrange", "zcard", "zrange", "zrangebylex", "zrangebyscore", "zrevrange"),
)
_WRITES = (
    *("evalsha", "script|load", "multi", "exec", "wait", "publish"),
    *("del", "expire", "rename", "set", "ttl", "type"),
    *("hdel", "hexists", "hincrby", "hlen", "hset", "hsetnx"),
    *("lpop", "lpush", "lrem", "rpop", "rpush", "sadd", "scard", "srem", "xadd", "xdel"),
    *("zadd", "zrem", "zremrangebyscore", "zscore"),
)
_SERVES = ("blmove", "blmpop", "brpop", "client|unblock")
_OURS = "ekiden[:.]*"
"""Our keys, and our queues."""
_READABLE = ("%R~ekiden.*", "%R~ekiden:[^imr]*")
"""Without what agents remember (``memory…``), and what others have pushed (``intake…``; ``misplaced:…``, where it may
have been put aside) and are answered (``reply:…``): whoever could read a request that waits could be quicker under its
id, or answered in its place."""
_COUNTED = f"%W~{keys.INTAKE}"
"""A right to write lets a command count what it may not read, and a role without commands that write does no more."""
_BINDINGS = "_kombu.binding*"
"""What kombu notes of the queues that it consumes."""
_ENDS = f"{keys.ENDED}*"
_CHANNELS = (keys.STOPPED, keys.WRITTEN, _ENDS)


@dataclass(frozen=True)
class Role:
    """What a kind of client may do, and nothing else."""

    about: str
    commands: tuple[str, ...]
    keys: tuple[str, ...]
    """Patterns, each with what may be done there: ``~`` everything, ``%R~`` read, ``%W~`` write."""
    channels: tuple[str, ...] = field(default=())

    @property
    def rules(self) -> str:
        """The rules in the server's own words. They take every other right away, and leave passwords alone."""
        taken = ("resetkeys", "resetchannels", "clearselectors", "-@all")
        given = (*self.keys, *(f"&{name}" for name in self.channels), *(f"+{name}" for name in self.commands))
        return " ".join((*taken, *given))


ROLES: Mapping[str, Role] = {
    "submitter": Role(
        "pushes requests to the intake, and reads",
        (*_CONNECTS, *_READS, "lpush"),
        (*_READABLE, f"%R~{keys.reply('*')}", _COUNTED),
        (_ENDS,),
    ),
    "observer": Role("reads", (*_CONNECTS, *_READS), (*_READABLE, _COUNTED), (_ENDS,)),
    "pool": Role(
        "runs dispatchers and workers",
        (*_CONNECTS, *_READS, *_WRITES, *_SERVES, "acl|whoami"),
        (f"~{_OURS}", f"~{_BINDINGS}"),
        _CHANNELS,
    ),
    "admin": Role(
        "submits, cancels, retries, publishes and answers approvals; may change everything, as pools may",
        (*_CONNECTS, *_READS, *_WRITES, "scan", "acl|whoami"),
        (f"~{_OURS}",),
        _CHANNELS,
    ),
}
