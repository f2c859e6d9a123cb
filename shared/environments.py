"""Environments: which variables the programs of tools get, and which may stand where these can read them.

Both are lists of what is let through. Nobody can list the names that secrets have: ``DB_PASS``, ``SENTRY_DSN``.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence

__all__ = ["PASSED", "for_tools", "is_open", "looks_secret", "open_part", "problem_of_name"]

_EARLY = (
    # who and where one is, in which language, at what kind of terminal
    *("HOME", "USER", "LOGNAME", "SHELL", "PATH", "TMPDIR", "TEMP", "TMP", "TERM", "COLORTERM", "TZ", "CI"),
    *("LANG", "LANGUAGE", "LC_ALL", "LC_ADDRESS", "LC_COLLATE", "LC_CTYPE", "LC_IDENTIFICATION", "LC_MEASUREMENT"),
    *("LC_MESSAGES", "LC_MONETARY", "LC_NAME", "LC_NUMERIC", "LC_PAPER", "LC_TELEPHONE", "LC_TIME"),
    # what Python reads, by name: python -c "help('environment')" knows no prefix, but other programs use this one
    *("PYTHONASYNCIODEBUG", "PYTHONBREAKPOINT", "PYTHONCASEOK", "PYTHONCOERCECLOCALE", "PYTHONDEBUG", "PYTHONDEVMODE"),
    *("PYTHONDONTWRITEBYTECODE", "PYTHONEXECUTABLE", "PYTHONFAULTHANDLER", "PYTHONHASHSEED", "PYTHONHOME"),
    *("PYTHONINSPECT", "PYTHONINTMAXSTRDIGITS", "PYTHONIOENCODING", "PYTHONMALLOC", "PYTHONMALLOCSTATS"),
    *("PYTHONNODEBUGRANGES", "PYTHONNOUSERSITE", "PYTHONOPTIMIZE", "PYTHONPATH", "PYTHONPERFSUPPORT"),
    *("PYTHONPLATLIBDIR", "PYTHONPROFILEIMPORTTIME", "PYTHONPYCACHEPREFIX", "PYTHONSAFEPATH", "PYTHONSTARTUP"),
    *("PYTHONTRACEMALLOC", "PYTHONUNBUFFERED", "PYTHONUSERBASE", "PYTHONUTF8", "PYTHONVERBOSE", "PYTHONWARNINGS"),
    *("PYTHONWARNDEFAULTENCODING", "PYTHON_BASIC_REPL", "PYTHON_COLORS", "PYTHON_CPU_COUNT", "PYTHON_FROZEN_MODULES"),
    *("PYTHON_GIL", "PYTHON_HISTORY", "PYTHON_JIT"),
)
PASSED = (
    *_EARLY,
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
    # where compilers, interpreters and their packages are
    *("CC", "CXX", "CPP", "LD", "AR", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "MAKEFLAGS"),
    *("CPATH", "LIBRARY_PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PKG_CONFIG_PATH", "CMAKE_PREFIX_PATH"),
    *("VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYENV_ROOT", "JAVA_HOME", "NODE_PATH", "NODE_ENV"),
    *("NVM_DIR", "GOPATH", "GOROOT", "GOBIN", "GOCACHE", "GOMODCACHE", "CARGO_HOME", "RUSTUP_HOME", "RUST_BACKTRACE"),
    *("GEM_HOME", "GEM_PATH"),
    # how to get out of a company's network
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO"),
)
"""What every command gets, name by name: under a prefix stands whatever somebody put there. No sockets of agents
(``SSH_AUTH_SOCK``), no addresses of a desktop's session (``XDG_RUNTIME_DIR``), nothing of a cloud, of a forge or of a
package index: ``tools.env`` adds."""

_OURS = ("EKIDEN_", "CELERY_")
"""Never a command's: how we are set up, and the way to our server."""
_READ_EARLY = ("LD_*", "DYLD_*", "MALLOC_*", "GLIBC_TUNABLES")
"""What a process must have from its first moment on: loaders read it, and nobody reads it again."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASS|PWD|PW$|CRED|AUTH|DSN|COOKIE|PRIVATE", re.IGNORECASE)
_USERINFO = re.compile(r"://[^/\s?#]*@")
_SECRET_INSIDE = re.compile(rf"({_SECRET_NAME.pattern})[A-Z0-9_.-]*[=:]", re.IGNORECASE)
"""As in an address's query or a compiler's flags: ``?password=…``, ``-DAPI_KEY=…``."""
_PLAIN = re.compile(r"|true|false|yes|no|on|off|[+-]?[0-9.]{1,5}", re.IGNORECASE)
"""Values that can be no secrets."""


class _Names:
    """The names that are listed, and all that begin like one with a star at its end."""

    def __init__(self, names: Iterable[str]) -> None:
        self._exact = frozenset(names)
        self._beginnings = tuple(one[:-1] for one in self._exact if one.endswith("*"))

    def __contains__(self, name: str) -> bool:
        return name in self._exact or name.startswith(self._beginnings)


_OPEN = _Names((*_EARLY, *_READ_EARLY))


def for_tools(env: Mapping[str, str], named: Sequence[str] = ()) -> dict[str, str]:
    """Return what commands get of ``env``: ``PASSED``, and what is ``named``.

    What is let through by itself, or by a pattern, must look harmless: neither does its name or an address in it speak
    of a secret (``looks_secret``), nor would anything of it be masked elsewhere. What is named in full is meant.
    """
    from ekiden.shared.redaction import redact  # here, for all that only start processes

    passed = _Names((*PASSED, *(one for one in named if one.endswith("*"))))
    exact = {one for one in named if not one.endswith("*")}
    return {
        name: value
        for name, value in env.items()
        if not name.startswith(_OURS)
        and (name in exact or (name in passed and not looks_secret(name, value) and redact(value) == value))
    }


def problem_of_name(entry: str) -> str | None:
    """Say why ``entry`` of ``tools.env`` names nothing that commands may get; None when it does."""
    name = entry.removesuffix("*")
    if not _NAME.fullmatch(name):
        return f"{entry!r} is no variable's name: give NAME, or PREFIX_* for all that begin so"
    if any(name.startswith(ours) or (entry != name and ours.startswith(name)) for ours in _OURS):
        return f"{entry!r}: commands never get what is Ekiden's or Celery's own; leave it out"
    return None


def open_part(env: Mapping[str, str]) -> dict[str, str]:
    """Return what of ``env`` may stand in the first environment of a process of ours; see ``is_open``."""
    return {name: value for name, value in env.items() if is_open(name, value)}


def is_open(name: str, value: str) -> bool:
    """Tell whether a process needs a variable at once, or its value can be no secret: a number, a path that exists.

    Not all that commands get is open: a process of ours gets flags and proxies like secrets.
    """
    if looks_secret(name, value) and not _is_path(value):
        return False
    return name in _OPEN or _PLAIN.fullmatch(value) is not None or _is_path(value)


def looks_secret(name: str, value: str) -> bool:
    """Tell whether a variable, or a setting in its value, is named like a secret, or holds an address with a user."""
    return (
        _SECRET_NAME.search(name) is not None
        or _USERINFO.search(value) is not None
        or _SECRET_INSIDE.search(value) is not None
        or (name.lower().endswith("_proxy") and "@" in value)  # as me:pw@host, without a scheme
    )


def _is_path(value: str) -> bool:
    """Tell a path from a secret that begins with a slash, as base64 may."""
    return value.startswith("/") and os.path.lexists(value.partition(os.pathsep)[0])
