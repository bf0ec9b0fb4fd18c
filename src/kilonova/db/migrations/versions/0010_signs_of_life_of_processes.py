# SPDX-License-Identifier: Apache-2.0
"""Store one heartbeat per process instead of one per service; processes are created for services that have none."""

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0010"
down_revision = "0013"

_OPTIONS: dict[str, Any] = {
    f"{dialect}_{option}": value
    for dialect in ("mysql", "mariadb")
    for option, value in (("engine", "InnoDB"), ("charset", "utf8mb4"), ("collate", "utf8mb4_nopad_bin"))
}
_COMPUTE = "nova-compute"
_TOGETHER = 1000
_TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def upgrade() -> None:
    connection = op.get_bind()
    leases, agents, seen = _stored(connection)
    op.drop_table("processes")
    op.create_table(
        "processes",
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("lease_until", _TIME, nullable=False),
        sa.Column("last_seen_at", _TIME, nullable=False),
        sa.Column("up", sa.Boolean(), nullable=False),
        sa.Column("machine", sa.String(255), nullable=False),
        sa.Column("agent", sa.String(255), nullable=True),
        sa.Column("release_version", sa.String(64), nullable=True),
        sa.Column("message_version", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("uuid", name=op.f("pk_processes")),
        **_OPTIONS,
    )
    op.drop_column("services", "last_seen_at")
    _convert(connection, leases, agents, seen)


def _stored(
    connection: sa.Connection,
) -> tuple[Mapping[str, datetime], Mapping[str, str], Sequence[tuple[str, str, datetime]]]:
    """Return (process → end of lease), (host → process), and the host, binary and last heartbeat of each service."""
    processes = sa.table("processes", sa.column("uuid"), sa.column("lease_until", _TIME))
    host_agents = sa.table("host_agents", sa.column("host"), sa.column("process"))
    services = sa.table("services", sa.column("host"), sa.column("binary"), sa.column("last_seen_at", _TIME))
    heard = sa.select(services).where(services.c.last_seen_at.is_not(None))
    return (
        {row.uuid: row.lease_until for row in connection.execute(sa.select(processes))},
        {row.host: row.process for row in connection.execute(sa.select(host_agents))},
        [(row.host, row.binary, row.last_seen_at) for row in connection.execute(heard)],
    )


def _convert(
    connection: sa.Connection,
    leases: Mapping[str, datetime],
    agents: Mapping[str, str],
    seen: Sequence[tuple[str, str, datetime]],
) -> None:
    """Keep the existing processes, and create processes for the services that have none.

    Compute services whose last heartbeats have the same time share one new process.
    """
    last: dict[str, datetime] = {}
    made: dict[datetime, str] = {}
    missing: dict[str, str] = {}
    machines: dict[str, datetime] = {}
    for host, binary, moment in seen:
        if binary != _COMPUTE:
            machines[host] = max(moment, machines.get(host, moment))
            continue
        process = agents.get(host, "")
        if process not in leases:
            process = missing[host] = made.setdefault(moment, str(uuid.uuid4()))
        last[process] = max(moment, last.get(process, moment))
    rows = [_row(each, last.get(each, until), lease_until=until) for each, until in leases.items()]
    rows += [_row(process, moment) for moment, process in made.items()]
    rows += [_row(str(uuid.uuid4()), moment, machine=host) for host, moment in machines.items()]
    columns = (sa.column("up", sa.Boolean()), sa.column("lease_until", _TIME), sa.column("last_seen_at", _TIME))
    _insert(connection, sa.table("processes", sa.column("uuid"), sa.column("machine"), *columns), rows)
    host_agents = sa.table("host_agents", sa.column("host"), sa.column("process"))
    dead: defaultdict[str, list[str]] = defaultdict(list)
    for host, process in agents.items():
        if process not in leases:
            dead[process].append(host)
    for process in dead:
        connection.execute(sa.delete(host_agents).where(host_agents.c.process == process))
    _insert(connection, host_agents, [{"host": host, "process": process} for host, process in missing.items()])


def _row(process: str, moment: datetime, *, lease_until: datetime | None = None, machine: str = "") -> dict[str, Any]:
    until = lease_until or moment
    return {"uuid": process, "lease_until": until, "last_seen_at": moment, "up": False, "machine": machine}


def _insert(connection: sa.Connection, table: sa.TableClause, rows: Sequence[Mapping[str, Any]]) -> None:
    for some in _pieces(rows):
        connection.execute(sa.insert(table), list(some))


def _pieces(rows: Sequence[Mapping[str, Any]]) -> Iterable[Sequence[Mapping[str, Any]]]:
    return (rows[start : start + _TOGETHER] for start in range(0, len(rows), _TOGETHER))
