"""A throwaway server that reads the files of somebody else's server, and cannot do anything else.

A server's journals are commands, which it executes while it loads them: ``CONFIG SET port``, ``REPLICAOF`` and the like
would be executed as its user's. Here every command is taken away but those that write data, so that any other ends it.
"""

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from ekiden.shared.embedded import server_program
from ekiden.shared.environments import open_part
from ekiden.shared.errors import ConfigurationError
from ekiden.shared.server_supervisor import answers
from ekiden.shared.stores.copying import command_names

__all__ = ["sandboxed_server"]

_LOADING_S = 300.0
_POLL_S = 0.01
_LOG = "log"
_WRITES = (
    "append copy decr decrby del expire expireat getdel getex getset hdel hexpire hexpireat hincrby hincrbyfloat "
    "hmset hpersist hpexpire hpexpireat hset hsetex hsetnx incr incrby incrbyfloat linsert lmove lmpop lpop lpush "
    "lpushx lrem lset ltrim mset msetex msetnx persist pexpire pexpireat psetex rename renamenx restore rpop "
    "rpoplpush rpush rpushx sadd sdiffstore set setex setnx setrange sinterstore smove spop srem sunionstore unlink "
    "xack xadd xautoclaim xclaim xdel xgroup xsetid xtrim zadd zdiffstore zincrby zinterstore zmpop zpopmax zpopmin "
    "zrangestore zrem zremrangebylex zremrangebyrank zremrangebyscore zunionstore"
)
"""What a journal may hold, by the names of its server: it writes data under keys and does nothing else."""
_KEPT = frozenset(f"{_WRITES} multi exec select ping scan dump pttl".split())
_OPTIONS = {
    "port": "0",
    "unixsocketperm": "700",
    "daemonize": "no",
    "save": '""',
    "sanitize-dump-payload": "yes",
    "appendfsync": "no",
    "auto-aof-rewrite-percentage": "0",
}


@contextlib.contextmanager
def sandboxed_server(folder: Path) -> Iterator[str]:
    """Load the journals in ``folder``, a copy that may be changed, and give the address of the server that did.

    Raises:
        ConfigurationError: They hold another command than those that write data, or cannot be loaded.
    """
    with _running(folder, {"appendonly": "no"}) as url:
        taken = [f'{name} ""' for name in command_names(url) if name not in _KEPT]
    with _running(folder, {"appendonly": "yes"}, taken) as url:
        yield url


@contextlib.contextmanager
def _running(folder: Path, more: Mapping[str, str], taken: Sequence[str] = ()) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="ekiden-") as short:  # a socket's path has some 100 bytes at most
        socket = Path(short) / "s.sock"
        options = {"unixsocket": f'"{socket}"', **_OPTIONS, **more}
        lines = [f"{name} {value}" for name, value in options.items()]
        lines += [f"rename-command {one}" for one in taken]
        with (folder / _LOG).open("wb") as log:
            process = subprocess.Popen(
                [str(server_program()), "-"],
                cwd=folder,
                env=open_part(os.environ),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )
        try:
            _configure(process, "\n".join(lines))
            _wait_until_loaded(process, socket, folder / _LOG)
            yield f"unix://{quote(str(socket))}"
        finally:
            process.kill()
            process.wait()


def _configure(process: "subprocess.Popen[bytes]", text: str) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin as given:
        given.write(f"{text}\n".encode())


def _wait_until_loaded(process: "subprocess.Popen[bytes]", socket: Path, log: Path) -> None:
    deadline = time.monotonic() + _LOADING_S
    while not answers(socket):
        if process.poll() is not None:
            raise ConfigurationError(f"these are no data that Ekiden wrote, nothing was copied: {_reason(log)}")
        if time.monotonic() > deadline:
            raise ConfigurationError(f"these data were not loaded within {_LOADING_S:.0f} s: nothing was copied")
        time.sleep(_POLL_S)


def _reason(log: Path) -> str:
    """Return what the server said last of what it would not do."""
    lines = log.read_text(errors="replace").splitlines()
    said = [line.partition(" # ")[2].strip()[:300] for line in lines if " # " in line]
    return said[-1] if said else "its server did not start"
