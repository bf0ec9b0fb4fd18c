# SPDX-License-Identifier: Apache-2.0
"""Checks before an upgrade: old agents, ended control processes with workflows, and stuck workflows."""

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.core import tables as t
from kilonova.records import dataclass

_A, _P = t.host_agents.c, t.processes.c


@dataclass(frozen=True, slots=True)
class OldAgent:
    """An agent process with an old message version, which is the last known process of at least one host."""

    name: str
    message_version: int
    release: str | None


@dataclass(frozen=True, slots=True)
class EndedProcess:
    """A control process without a valid lease that still owns workflows."""

    uuid: str
    machine: str


def old_agents(connection: Connection, version: int) -> tuple[OldAgent, ...]:
    """Return agent processes that do not understand messages of ``version``, sorted by name."""
    known = sa.func.coalesce(_P.message_version, 0)
    has_host = sa.select(_A.host).where(_A.process == _P.uuid).exists()
    found = sa.select(_P.agent, known, _P.release_version).where(_P.agent.is_not(None), has_host, known < version)
    return tuple(OldAgent(*row) for row in connection.execute(found.order_by(_P.agent)))


def ended_with_work(connection: Connection, since: datetime) -> tuple[EndedProcess, ...]:
    """Return control processes that own workflows and whose lease ended before a time."""
    owned = sa.select(t.workflows.c.uuid).where(t.workflows.c.owner == _P.uuid)
    found = sa.select(_P.uuid, _P.machine).where(_P.agent.is_(None), _P.lease_until < since, owned.exists())
    return tuple(EndedProcess(*row) for row in connection.execute(found.order_by(_P.uuid)))


def stuck_workflows(connection: Connection) -> int:
    """Count the workflows that are stuck until an operator acts."""
    stuck = sa.select(sa.func.count()).select_from(t.workflows).where(t.workflows.c.stuck.is_(True))
    return int(connection.execute(stuck).scalar_one())
