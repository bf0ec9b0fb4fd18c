# SPDX-License-Identifier: Apache-2.0
"""Liveness of processes, and the process that runs the agent of each host (ADR 20).

A process is a control process, or one session of an agent process. It registers once, with its hosts, and then sends
heartbeats (:func:`keep_alive`). It may act until its lease ends. Its hosts count as up until a control process finds
that the process's last heartbeat is too old (:func:`mark_silent`). All times are of the database clock.

The change log has the process of each agent, and each process that goes down or comes up, but no heartbeats.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.change_log.changes import NOWHERE, LoggedAgents, LoggedProcess
from kilonova.db.core import tables as t
from kilonova.db.core.clock import epoch_of
from kilonova.db.core.statements import insert_many, insert_missing, pieces
from kilonova.db.core.transaction import Transaction
from kilonova.deadline import heeding
from kilonova.records import dataclass

#: Default lease: how long a process counts as alive after its last heartbeat.
LEASE = timedelta(seconds=60)
_A, _P = t.host_agents.c, t.processes.c
_ADDED_TOGETHER = 10_000
_ADD = insert_many(t.host_agents, {"host": "host"}, process=sa.bindparam("process", type_=sa.String))


@dataclass(frozen=True, slots=True)
class Process:
    """A process that registers. ``uuid``: of a control process, or of a session of an agent process.

    ``machine``: name of the machine where it runs. ``agent``: the name of an agent process that is reached through the
    broker; None for a control process. ``message_version``: the newest version of the messages that the process
    understands.
    """

    uuid: str
    machine: str = ""
    agent: str | None = None
    release_version: str | None = None
    message_version: int | None = None


@dataclass(frozen=True, slots=True)
class Route:
    """The last known process of a host's agent. ``agent``: name of an agent process; None for a control process."""

    process: str
    agent: str | None


@dataclass(frozen=True, slots=True)
class Silent:
    """A process that went down. ``hosts``: number of hosts whose agents ran in the process."""

    process: str
    machine: str
    agent: str | None
    last_seen_at: datetime
    hosts: int


def register(tx: Transaction, process: Process, hosts: Collection[str], lease: timedelta) -> None:
    """Register a live process and the hosts whose agents run in it. Call this function again to add hosts.

    The agent of a host runs in one process only: another process that had one of ``hosts`` must have ended, and so must
    other sessions of the same agent process. The leases of these processes end now, so that their workflows are taken
    over at once.
    """
    _begin(tx, process, lease)
    if process.agent is not None:
        earlier = sa.and_(_P.agent == process.agent, _P.uuid != process.uuid, _P.lease_until > tx.now)
        tx.execute(sa.update(t.processes).where(earlier).values(lease_until=tx.now))
    if hosts:
        _take(tx, process.uuid, sorted(set(hosts)))


def keep_alive(tx: Transaction, processes: Collection[str], lease: timedelta) -> frozenset[str]:
    """Record a heartbeat of each process with a valid lease; return these processes. All others must register again."""
    counting = sa.select(_P.uuid, _P.up).where(_P.uuid.in_(list(processes)), _P.lease_until > tx.now)
    up = {row.uuid: row.up for row in tx.execute(counting)}
    if up:
        alive_now = {"last_seen_at": tx.now, "lease_until": tx.now + lease, "up": True}
        tx.execute(sa.update(t.processes).where(_P.uuid.in_(list(up))).values(alive_now))
    for uuid, was_up in up.items():
        if not was_up:
            tx.log("process", uuid, LoggedProcess(None))
    return frozenset(up)


def end_control_processes(tx: Transaction, *, besides: str) -> None:
    """End the leases of all control processes except ``besides``, because only one process can use the database."""
    others = sa.and_(_P.agent.is_(None), _P.uuid != besides, _P.lease_until > tx.now)
    tx.execute(sa.update(t.processes).where(others).values(lease_until=tx.now))


def end_leases(tx: Transaction, processes: Collection[str]) -> None:
    """End the leases of processes that have ended for certain, so that their work is taken over at once."""
    going_on = sa.and_(_P.uuid.in_(sorted(processes)), _P.lease_until > tx.now)
    tx.execute(sa.update(t.processes).where(going_on).values(lease_until=tx.now))


def end_sessions_with(tx: Transaction, agent: str, hosts: Collection[str]) -> None:
    """End the sessions of ``agent`` that have one of ``hosts``, for which the agent is no longer enrolled.

    The agent must then start a new session with its other hosts.
    """
    for some in pieces(sorted(hosts)):
        have_one = _P.uuid.in_(sa.select(_A.process).where(_A.host.in_(some)))
        going_on = sa.and_(_P.agent == agent, _P.lease_until > tx.now)
        tx.execute(sa.update(t.processes).where(have_one, going_on).values(lease_until=tx.now))


def silent(connection: Connection, since: datetime, *, besides: str) -> tuple[Silent, ...]:
    """Return processes other than ``besides`` that count as up and have had no heartbeat since ``since``."""
    hosts = sa.select(sa.func.count()).where(_A.process == _P.uuid).scalar_subquery()
    wanted = sa.select(_P.uuid, _P.machine, _P.agent, _P.last_seen_at, hosts)
    wanted = wanted.where(_P.up.is_(True), _P.last_seen_at < since, _P.uuid != besides)
    return tuple(Silent(*row) for row in connection.execute(wanted))


def mark_silent(tx: Transaction, since: datetime, *, besides: str = "") -> tuple[Silent, ...]:
    """Mark the processes that :func:`silent` finds as down, and return them."""
    found = silent(tx.connection, since, besides=besides)
    if found:
        uuids = [each.process for each in found]
        tx.execute(sa.update(t.processes).where(_P.uuid.in_(uuids)).values(up=False))
    for each in found:
        tx.log("process", each.process, LoggedProcess(epoch_of(each.last_seen_at)))
    return found


def mark_down(tx: Transaction, which: sa.ColumnElement[bool]) -> None:
    """Mark processes as down, because their messages are ignored from now on."""
    found = tx.execute(sa.select(_P.uuid, _P.last_seen_at).where(which, _P.up.is_(True))).all()
    if found:
        tx.execute(sa.update(t.processes).where(_P.uuid.in_([row.uuid for row in found])).values(up=False))
    for row in found:
        tx.log("process", row.uuid, LoggedProcess(epoch_of(row.last_seen_at)))


def forget_ended(tx: Transaction, lease: timedelta) -> int:
    """Delete processes that ended long ago and are no longer needed. Returns the number of deleted processes.

    The last known process of a host's agent is kept, and so is the last control process of each machine.
    """
    later = t.processes.alias()
    is_followed = sa.exists().where(
        later.c.machine == _P.machine, later.c.agent.is_(None), later.c.last_seen_at > _P.last_seen_at
    )
    ended = sa.select(_P.uuid).where(
        _P.lease_until < tx.now - 10 * lease,
        ~sa.exists().where(_A.process == _P.uuid),
        sa.or_(_P.agent.is_not(None), _P.machine == "", is_followed),
    )
    gone = list(tx.execute(ended).scalars())
    if gone:
        tx.execute(sa.delete(t.processes).where(_P.uuid.in_(gone)))
    for uuid in gone:
        tx.log("process", uuid, None)
    return len(gone)


def forget_host(tx: Transaction, host: str) -> None:
    """Delete the record of the process of a host's agent."""
    if tx.execute(sa.delete(t.host_agents).where(_A.host == host)).rowcount:
        _log_agents(tx, NOWHERE, [host])


def route(connection: Connection, host: str) -> Route | None:
    """Return the last known process of the agent of ``host``, or None; that process may have ended."""
    wanted = sa.select(_A.process, _P.agent).outerjoin(t.processes, _P.uuid == _A.process).where(_A.host == host)
    row = connection.execute(wanted).first()
    return None if row is None else Route(row.process, row.agent)


def process_of(connection: Connection, host: str) -> str | None:
    """Return the uuid of the last known process of the agent of ``host``, or None; that process may have ended."""
    process: str | None = connection.execute(sa.select(_A.process).where(_A.host == host)).scalar()
    return process


def alive(now: datetime) -> sa.Select[tuple[str]]:
    """Return the query for the processes whose lease is valid. ``now``: database time."""
    return sa.select(_P.uuid).where(_P.lease_until > now)


def living(connection: Connection, now: datetime) -> frozenset[str]:
    """Return the processes whose lease is valid. ``now``: database time."""
    return frozenset(row.uuid for row in connection.execute(alive(now)))


def is_alive(tx: Transaction, process: str) -> bool:
    """Return whether the lease of ``process`` is valid."""
    return tx.execute(alive(tx.now).where(_P.uuid == process)).first() is not None


def machines(connection: Connection) -> Mapping[str, tuple[bool, datetime]]:
    """Return machine → (whether a control process there counts as up, time of the last heartbeat)."""
    columns = (_P.machine, sa.func.max(sa.cast(_P.up, sa.Integer)), sa.func.max(_P.last_seen_at))
    rows = connection.execute(sa.select(*columns).where(_P.agent.is_(None)).group_by(_P.machine))
    return {machine: (bool(up), last_seen_at) for machine, up, last_seen_at in rows}


def newest_heartbeat(connection: Connection) -> datetime | None:
    """Return the time of the newest heartbeat of any process, or None if there is none."""
    newest: datetime | None = connection.execute(sa.select(sa.func.max(_P.last_seen_at))).scalar()
    return newest


def starts(connection: Connection, hosts: Collection[str] | None) -> dict[str, datetime]:
    """Return host → start time of its agent's process, if known, for these hosts or for all hosts."""
    wanted = sa.select(t.host_agents.c.host, _P.started_at).join(t.processes, _P.uuid == t.host_agents.c.process)
    wanted = wanted.where(_P.started_at.is_not(None))
    if hosts is not None:
        wanted = wanted.where(t.host_agents.c.host.in_(list(hosts)))
    return {row.host: row.started_at for row in heeding(connection.execute(wanted))}


def _begin(tx: Transaction, process: Process, lease: timedelta) -> None:
    values = {
        "lease_until": tx.now + lease,
        "last_seen_at": tx.now,
        "up": True,
        "machine": process.machine,
        "agent": process.agent,
        "release_version": process.release_version,
        "message_version": process.message_version,
    }
    if not insert_missing(tx, t.processes, {"uuid": process.uuid, "started_at": tx.now, **values}):
        was_up = tx.execute(sa.select(_P.up).where(_P.uuid == process.uuid)).scalar_one()
        tx.execute(sa.update(t.processes).where(_P.uuid == process.uuid).values(values))
        if was_up:
            return
    tx.log("process", process.uuid, LoggedProcess(None))


def _take(tx: Transaction, process: str, hosts: Sequence[str]) -> None:
    before: dict[str, str] = {}
    for some in pieces(hosts):
        known = sa.select(_A.host, _A.process).where(_A.host.in_(some))
        before.update((row.host, row.process) for row in tx.execute(known))
    ended = set(before.values()) - {process}
    if ended:
        still = sa.and_(_P.uuid.in_(ended), _P.lease_until > tx.now)
        tx.execute(sa.update(t.processes).where(still).values(lease_until=tx.now))
    for some in pieces([host for host in hosts if before.get(host, process) != process]):
        tx.execute(sa.update(t.host_agents).where(_A.host.in_(some)).values(process=process))
    for some in pieces([host for host in hosts if host not in before], _ADDED_TOGETHER):
        _ADD.run(tx, [{"host": host} for host in some], process=process)
    came = [host for host in hosts if before.get(host) != process]
    if came:
        _log_agents(tx, process, came)


def _log_agents(tx: Transaction, process: str, hosts: Sequence[str]) -> None:
    """Write to the change log that the agents of ``hosts``, and of hosts logged earlier in this transaction, run in
    ``process``.

    A transaction keeps only the last value of a key, so the hosts logged earlier would be lost. Hosts whose agents run
    in another process by now are left out.
    """
    told = [change.value.hosts for change in tx.changes if (change.kind, change.key) == ("agents", process)]
    still: list[str] = []
    for some in pieces(told[-1] if told else ()):
        known = tx.execute(sa.select(_A.host, _A.process).where(_A.host.in_(some)))
        process_of_host = {row.host: row.process for row in known}
        still += [host for host in some if process_of_host.get(host, NOWHERE) == process]
    tx.log("agents", process, LoggedAgents(list(dict.fromkeys((*still, *hosts)))))
