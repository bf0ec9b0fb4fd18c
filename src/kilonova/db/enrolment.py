# SPDX-License-Identifier: Apache-2.0
"""The agent processes that may connect through the broker, and the hosts of each agent (ADR 20).

An agent is identified by the name of its user at the broker; only the broker knows its password. A host has at most
one agent. Each change of an agent gives it a ``version`` above that of all other agents, so that control processes can
read only the agents that have changed. The hosts of a revoked agent stay recorded, but have no effect until that agent
or another one is enrolled for them.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import host_agents
from kilonova.db.core import tables as t
from kilonova.db.core.statements import insert_many, mapping, pieces
from kilonova.db.core.transaction import Transaction
from kilonova.errors import Conflict, Forbidden, InvalidRequest, NotFound
from kilonova.records import dataclass

_A, _H = t.enrolled_agents.c, t.enrolled_hosts.c
_ADDED_TOGETHER = 10_000
_SHOWN = 10
#: Host names that the API accepts.
_HOST = re.compile(r"[A-Za-z0-9._-]{1,255}")
_ADD = insert_many(t.enrolled_hosts, {"host": "host"}, agent=sa.bindparam("agent", type_=sa.String))


@dataclass(frozen=True, slots=True)
class EnrolledAgent:
    """An agent and its hosts. ``revoked_at``: since this time its messages are ignored; None if it is not revoked."""

    name: str
    hosts: tuple[str, ...]
    created_at: datetime
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True)
class EnrolmentChanges:
    """Agents enrolled or revoked since a given version.

    ``hosts``: changed agent → its hosts; no hosts if it is revoked.
    """

    version: int
    hosts: Mapping[str, frozenset[str]]
    revoked: frozenset[str]


def enrol(tx: Transaction, name: str, hosts: Collection[str] = (), removed: Collection[str] = ()) -> EnrolledAgent:
    """Enrol an agent for ``hosts`` in addition to its present hosts, and remove the hosts ``removed`` from it.

    If a session of the agent has a removed host, that session ends. A revoked agent is no longer revoked.
    Raises: InvalidRequest; Conflict if a host belongs to another agent.
    """
    for host in hosts:
        if _HOST.fullmatch(host) is None:
            raise InvalidRequest(
                f"Host name {host!r} is not valid: use at most 255 letters, digits, '.', '_' and '-'.",
                host=host,
            )
    if both := set(hosts) & set(removed):
        raise InvalidRequest(f"Host {_shown(both)} cannot be both added and removed.")
    known = tx.execute(sa.select(_A.name).where(_A.name == name)).first() is not None
    changed = {"version": _next_version(tx), "revoked_at": None}
    if known:
        tx.execute(sa.update(t.enrolled_agents).where(_A.name == name).values(changed))
    else:
        tx.execute(sa.insert(t.enrolled_agents), {"name": name, "created_at": tx.now, **changed})
    _remove(tx, name, removed)
    _add(tx, name, sorted(set(hosts)))
    agent = get(tx.connection, name)
    if not agent.hosts:
        raise InvalidRequest(f"Agent {name} needs at least one host.")
    return agent


def revoke(tx: Transaction, name: str) -> EnrolledAgent:
    """Revoke an agent: its messages are ignored from now on. No error if it is revoked already. Raises: NotFound."""
    agent = get(tx.connection, name)
    if agent.revoked_at is not None:
        return agent
    revoked = {"version": _next_version(tx), "revoked_at": tx.now}
    tx.execute(sa.update(t.enrolled_agents).where(_A.name == name).values(revoked))
    return get(tx.connection, name)


def get(connection: Connection, name: str) -> EnrolledAgent:
    """Return an agent. Raises: NotFound."""
    row = connection.execute(sa.select(t.enrolled_agents).where(_A.name == name)).first()
    if row is None:
        raise NotFound(f"Agent {name} is not enrolled.", name=name)
    hosts = connection.execute(sa.select(_H.host).where(_H.agent == name).order_by(_H.host)).scalars()
    return EnrolledAgent(row.name, tuple(hosts), row.created_at, row.revoked_at)


def list_all(connection: Connection) -> tuple[EnrolledAgent, ...]:
    """Return all agents sorted by name, including revoked agents."""
    hosts: dict[str, list[str]] = {}
    for host, agent in connection.execute(sa.select(_H.host, _H.agent).order_by(_H.host)):
        hosts.setdefault(agent, []).append(host)
    rows = connection.execute(sa.select(t.enrolled_agents).order_by(_A.name))
    return tuple(
        EnrolledAgent(row.name, tuple(hosts.get(row.name, ())), row.created_at, row.revoked_at) for row in rows
    )


def changes_since(connection: Connection, version: int) -> EnrolmentChanges | None:
    """Return the enrolments and revocations after ``version``, or None if there are none.

    If there are none, the call takes only one index lookup.
    """
    newest = connection.execute(sa.select(sa.func.max(_A.version))).scalar() or 0
    if newest <= version:
        return None
    changed = connection.execute(sa.select(_A.name, _A.version, _A.revoked_at).where(_A.version > version)).all()
    hosts: dict[str, set[str]] = {row.name: set() for row in changed}
    mine = sa.select(_H.host, _H.agent).join(t.enrolled_agents, _A.name == _H.agent)
    for host, agent in connection.execute(mine.where(_A.version > version, _A.revoked_at.is_(None))):
        hosts[agent].add(host)
    revoked = frozenset(row.name for row in changed if row.revoked_at is not None)
    return EnrolmentChanges(newest, {name: frozenset(each) for name, each in hosts.items()}, revoked)


def require_enrolled(tx: Transaction, name: str, hosts: Collection[str], hypervisors: Collection[str] = ()) -> None:
    """Check, as part of a transaction, that an agent is enrolled for ``hosts``.

    ``hypervisors``: hostnames that the agent reports; none may be the host of another agent. Raises: Forbidden.
    """
    found = tx.execute(sa.select(_A.name).where(_A.name == name, _A.revoked_at.is_(None))).first()
    foreign = set(hosts)
    for some in pieces(sorted(foreign)):
        mine = sa.select(_H.host).where(_H.agent == name, _H.host.in_(some))
        foreign.difference_update(tx.execute(mine).scalars())
    if found is None or foreign:
        raise Forbidden(f"Agent {name} is not enrolled for {_shown(foreign or hosts)}.")
    for some in pieces(sorted(set(hypervisors))):
        theirs = sa.select(_H.host).where(_H.agent != name, _H.host.in_(some))
        if taken := tx.execute(theirs).scalars().all():
            raise Forbidden(f"Agent {name} reports a hypervisor {_shown(taken)}, which is a host of another agent.")


def _next_version(tx: Transaction) -> int:
    """Return the version for a change. Transactions are serialized, so versions become visible in ascending order."""
    newest: int | None = tx.execute(sa.select(sa.func.max(_A.version))).scalar()
    return 1 + (newest or 0)


def _remove(tx: Transaction, name: str, removed: Collection[str]) -> None:
    mine = set(tx.execute(sa.select(_H.host).where(_H.agent == name)).scalars())
    if foreign := set(removed) - mine:
        raise InvalidRequest(f"Agent {name} has no host {_shown(foreign)}.")
    for some in pieces(sorted(removed)):
        tx.execute(sa.delete(t.enrolled_hosts).where(_H.host.in_(some)))
    host_agents.end_sessions_with(tx, name, removed)


def _add(tx: Transaction, name: str, hosts: Sequence[str]) -> None:
    missing = set(hosts)
    taken: dict[str, str] = {}
    for some in pieces(hosts):  # no join with the table of agents, because PostgreSQL might scan all of it
        owners: dict[str, str] = mapping(tx.connection, sa.select(_H.host, _H.agent).where(_H.host.in_(some)))
        speaking = sa.select(_A.name).where(_A.name.in_(set(owners.values())), _A.revoked_at.is_(None))
        may_speak = set(tx.execute(speaking).scalars())
        missing.difference_update(host for host, agent in owners.items() if agent == name)
        taken |= {host: agent for host, agent in owners.items() if agent != name and agent in may_speak}
    if taken:
        host = min(taken)
        more = f", and {len(taken) - 1} more hosts have other agents" if len(taken) > 1 else ""
        raise Conflict(f"Host {host} has agent {taken[host]}{more}.", host=host, agent=taken[host])
    for some in pieces(sorted(missing)):  # these hosts may still be recorded for revoked agents
        tx.execute(sa.delete(t.enrolled_hosts).where(_H.host.in_(some)))
    for some in pieces(sorted(missing), _ADDED_TOGETHER):
        _ADD.run(tx, [{"host": host} for host in some], agent=name)


def _shown(hosts: Collection[str]) -> str:
    names = sorted(hosts)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
