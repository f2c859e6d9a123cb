"""What the server's settings can lose of what it has acknowledged: in a crash, and in a failover."""

from ekiden.dispatcher.cli.doctor.findings import Finding, error, ok, warning
from ekiden.shared.stores.durability import Durability

__all__ = ["losses"]

_SYNC_REMEDY = "CONFIG SET appendfsync everysec"
_APPEND_REMEDY = "CONFIG SET appendonly yes"


def losses(server: Durability, wait_replicas: int) -> list[Finding]:
    """Judge what is lost with the server's program, its host, or the server for good."""
    found = [_crash(server), _failover(server, wait_replicas)]
    if server.replicas or wait_replicas:
        found.append(_cut_off(server))
    return found


def _crash(server: Durability) -> Finding:
    if server.appendonly is None:
        return warning("crash", _unknown("what it keeps on disk"), "it should have appendonly yes")
    if server.keeps_nothing:
        return warning("crash", "the server keeps nothing on disk: its jobs are lost when it ends", _APPEND_REMEDY)
    if not server.appendonly:
        when = f"save {server.snapshots}" if server.snapshots else "when is unknown"
        text = f"the server keeps snapshots only ({when}): when it ends, all since the last one is lost"
        return warning("crash", text, _APPEND_REMEDY)
    return _host_crash(server)


def _host_crash(server: Durability) -> Finding:
    """Judge a server with an append-only file: its own crash loses nothing, that of its host what was not synced."""
    text = "jobs are kept on disk: a server that is killed loses nothing, a host that goes down "
    if server.fsync is None:
        return warning("crash", text + _unknown("an unknown part"), "it should have appendfsync everysec, or always")
    if server.fsync == "no":
        return warning("crash", text + "up to half a minute (appendfsync no)", _SYNC_REMEDY)
    if server.syncs_in_rewrites is False:
        more = "more while the file is rewritten (no-appendfsync-on-rewrite yes)"
        return warning("crash", text + more, "CONFIG SET no-appendfsync-on-rewrite no")
    lost: dict[str, str] = {"always": "nothing either", "everysec": "1 s at most"}
    return ok("crash", f"{text}{lost.get(server.fsync, 'an unknown part')} (appendfsync {server.fsync})")


def _failover(server: Durability, wanted: int) -> Finding:
    has = server.replicas
    if has is None:
        return warning("failover", _unknown("its replicas"))
    if has < wanted:
        text = f"{has} replicas are connected, {wanted} are waited for: every submission ends as not confirmed"
        return error("failover", text, "connect more, or lower ekiden.wait_replicas")
    if not has:
        return ok("failover", "no replicas: jobs are as safe as this server's disk")
    behind = "" if server.behind_bytes is None else f", {server.behind_bytes} bytes behind just now"
    if wanted:
        text = f"what was confirmed survives: {wanted} of {has} replicas are waited for"
        return ok("failover", text + " (of several, the one furthest ahead must be promoted)" * (has > wanted))
    text = f"{has} replicas are connected{behind}: a failover loses what the promoted one lacks, and nobody is told"
    return warning("failover", text, "ekiden config set ekiden.wait_replicas 1")


def _cut_off(server: Durability) -> Finding:
    """Judge a primary that its replicas do not hear any more, while some clients still do."""
    if server.min_replicas is None:
        return warning("cut-off primary", _unknown("min-replicas-to-write"), "it should be 1 or more")
    if not server.min_replicas:
        text = "it would go on taking writes, and a failover loses them (min-replicas-to-write 0)"
        return warning("cut-off primary", text, "CONFIG SET min-replicas-to-write 1")
    after = f"after {server.max_lag_s} s" if server.max_lag_s else "as soon as it knows"
    return ok("cut-off primary", f"it takes no writes {after} (min-replicas-to-write {server.min_replicas})")


def _unknown(what: str) -> str:
    return f"{what}: unknown, the server does not tell"
