# SPDX-License-Identifier: Apache-2.0
"""Sessions of agent processes that are reached through the broker, and the hosts of each session (ADR 20)."""

from collections.abc import Collection, Mapping
from dataclasses import field
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import host_agents
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.deadline import heeding
from kilonova.errors import Forbidden
from kilonova.model.host import COMPUTE
from kilonova.records import dataclass

_A, _P = t.host_agents.c, t.processes.c
#: Maximum length in characters of the name of a session; the name is a uuid.
_LONGEST = 36


class SessionOverError(Forbidden):
    """An agent has used one of its own sessions after the session had ended. An ended session is never resumed."""


@dataclass(frozen=True, slots=True)
class Session:
    """A session of an agent process, that is, one run of that process.

    ``uuid``: of the session. ``agent``: the name of the agent process at the broker.
    ``message_version``: the newest version of the messages that the process understands; None if unknown.
    """

    uuid: str
    agent: str
    message_version: int | None = field(default=None, compare=False)


_SESSIONS = sa.select(_P.uuid, _P.agent, _P.message_version).where(_P.agent.is_not(None))


def require_name(session: Session) -> None:
    """Check that a session name is printable, not empty and no longer than a uuid. Raises: Forbidden."""
    if not 0 < len(session.uuid) <= _LONGEST or not session.uuid.isprintable():
        raise _not_own(session)


def keep_alive(tx: Transaction, sessions: Collection[Session], lease: timedelta) -> Mapping[Session, bool | Forbidden]:
    """Record a heartbeat of each session whose lease is valid.

    Returns session → whether its lease is valid, or Forbidden if the session belongs to another agent.
    """
    named = sa.select(_P.uuid, _P.agent).where(_P.uuid.in_([session.uuid for session in sessions]))
    agents: dict[str, str | None] = {row.uuid: row.agent for row in tx.execute(named)}
    refused = {each: _not_own(each) for each in sessions if agents.get(each.uuid, each.agent) != each.agent}
    alive = host_agents.keep_alive(tx, {each.uuid for each in sessions if each not in refused}, lease)
    return {each: refused.get(each) or each.uuid in alive for each in sessions}


def _not_own(session: Session) -> Forbidden:
    return Forbidden(f"Agent {session.agent} does not own session {session.uuid[:_LONGEST]!r}.")


def require_present(connection: Connection, session: Session, now: datetime) -> None:
    """Check that a session is new, or belongs to its agent and has not ended. Raises: Forbidden, SessionOverError."""
    require_name(session)
    row = connection.execute(sa.select(_P.agent, _P.lease_until).where(_P.uuid == session.uuid)).first()
    if row is None:
        return
    if row.agent != session.agent:
        raise _not_own(session)
    if row.lease_until <= now:
        raise SessionOverError(f"Session {session.uuid} of agent {session.agent} has ended.")


def end_of(tx: Transaction, agents: Collection[str]) -> int:
    """End the sessions of these agents at once, as if the leases had expired. Returns the number of ended sessions."""
    of_agents = _P.agent.in_(list(agents))
    host_agents.mark_down(tx, of_agents)
    alive = sa.and_(of_agents, _P.lease_until > tx.now)
    return tx.execute(sa.update(t.processes).where(alive).values(lease_until=tx.now)).rowcount


def with_lease(connection: Connection, at: datetime) -> tuple[Session, ...]:
    """Return the sessions whose lease is valid at a time, by the clock of the database."""
    return tuple(Session(*row) for row in connection.execute(_SESSIONS.where(_P.lease_until > at)))


def not_given_up(connection: Connection, at: datetime) -> Mapping[Session, datetime]:
    """Return session → end of the session's lease, for sessions whose lease is valid or whose hosts count as up.

    The scheduler may choose a host that counts as up, so orders to such a host have to wait for the host's session.
    """
    wanted = _SESSIONS.add_columns(_P.lease_until).where(sa.or_(_P.lease_until > at, _P.up.is_(True)))
    return {Session(*rest): until for *rest, until in connection.execute(wanted)}


def hosts(connection: Connection, session: str) -> tuple[str, ...]:
    """Return the hosts that a session has reported."""
    return tuple(connection.execute(sa.select(_A.host).where(_A.process == session)).scalars())


def of_host(connection: Connection, host: str, at: datetime) -> Session | None:
    """Return the session of a host's agent; None if the session's lease has expired and the host counts as down."""
    joined = _SESSIONS.join_from(t.processes, t.host_agents, _A.process == _P.uuid)
    present = sa.or_(_P.lease_until > at, _P.up.is_(True))
    row = connection.execute(joined.where(_A.host == host, present)).first()
    return None if row is None else Session(*row)


@dataclass(frozen=True, slots=True)
class HostAgent:
    """A compute service with the process that runs its agent, if that process is known.

    ``agent``: the name of an agent process that is reached through the broker; None for an agent inside a control
    process. ``declared_down``: whether the service-group driver declares the host down.
    ``message_version``: the newest version of the messages that the process understands.
    """

    host: str
    disabled: bool
    forced_down: bool
    declared_down: bool
    process: str | None
    agent: str | None
    machine: str | None
    release_version: str | None
    message_version: int | None
    up: bool
    last_seen_at: datetime | None


_S = t.services.c
_HOST_AGENTS = (
    sa.select(
        _S.host,
        _S.disabled,
        _S.forced_down,
        sa.func.coalesce(_S.declared_down, sa.false()).label("declared_down"),
        _A.process,
        _P.agent,
        _P.machine,
        _P.release_version,
        _P.message_version,
        sa.func.coalesce(_P.up, sa.false()).label("up"),
        _P.last_seen_at,
    )
    .select_from(t.services.outerjoin(t.host_agents, _A.host == _S.host).outerjoin(t.processes, _P.uuid == _A.process))
    .where(_S.binary == COMPUTE)
    .order_by(_S.host)
)


def list_page(
    connection: Connection, *, host: str | None = None, limit: int | None = None, marker: str | None = None
) -> tuple[HostAgent, ...]:
    """Return one page of hosts after ``marker``, sorted by name. ``host``: return only this host."""
    wanted = _HOST_AGENTS.limit(limit)
    if host is not None:
        wanted = wanted.where(_S.host == host)
    if marker is not None:
        wanted = wanted.where(_S.host > marker)
    return tuple(HostAgent(**row) for row in heeding(connection.execute(wanted).mappings()))


@dataclass(frozen=True, slots=True)
class Versions:
    """The release of a process, and the newest version of the messages that it understands."""

    release: str | None
    messages: int | None


UNKNOWN = Versions(None, None)


def versions(connection: Connection) -> Mapping[tuple[str, bool], Versions]:
    """Return (name, is_host) → versions of a process.

    ``is_host`` is True for the process with the agent of host ``name``, and False for the control process on machine
    ``name``. If several control processes have run on a machine, the entry describes the process with the latest
    heartbeat.
    """
    spoken = (_P.release_version, _P.message_version)
    of_hosts = sa.select(_A.host, *spoken).join_from(t.host_agents, t.processes, _P.uuid == _A.process)
    of_machines = sa.select(_P.machine, *spoken).where(_P.agent.is_(None)).order_by(_P.last_seen_at)
    found = {(name, True): Versions(*rest) for name, *rest in connection.execute(of_hosts)}
    return found | {(name, False): Versions(*rest) for name, *rest in connection.execute(of_machines)}
