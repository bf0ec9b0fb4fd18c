# SPDX-License-Identifier: Apache-2.0
"""Helpers for evacuation tests: a server on one of three hosts, and queries of guests and claims."""

import sqlalchemy as sa

from kilonova.db import server_migrations
from kilonova.db.core import tables as t
from kilonova.db.server_migrations import MigrationQuery
from kilonova.model.instance import PowerState
from support.cell import Cell, host

#: Hosts of different sizes, so that each decision has exactly one best host.
HOSTS = (host("node1"), host("node2", memory_mib=8192), host("node3", memory_mib=6144))


def boot(cell: Cell, **asked: object) -> str:
    (uuid,) = cell.boot(force_host="node1", **asked)
    cell.bus.run()
    return uuid


def running(cell: Cell, uuid: str) -> list[str]:
    states = {name: driver.list_guests().get(uuid) for name, driver in cell.drivers.items()}
    return sorted(name for name, state in states.items() if state is PowerState.RUNNING)


def having(cell: Cell, uuid: str) -> list[str]:
    return sorted(name for name, driver in cell.drivers.items() if uuid in driver.list_guests())


def migrations(cell: Cell, uuid: str) -> list[tuple[str, str, str | None]]:
    """Return (status, source, destination) of each migration of a server, newest first."""
    with cell.database.read() as connection:
        found = server_migrations.list_page(connection, MigrationQuery(instance_uuid=uuid))
    return [(each.status.value, each.source_host, each.dest_host) for each in found]


def room(cell: Cell) -> dict[str, int]:
    """Return host → number of consumers with allocations on it."""
    table, provider = t.allocations.c, t.resource_providers.c
    wanted = sa.select(provider.name, sa.func.count(sa.distinct(table.consumer_uuid))).join_from(
        t.allocations, t.resource_providers, table.resource_provider_id == provider.id
    )
    with cell.database.read() as connection:
        return dict(map(tuple, connection.execute(wanted.group_by(provider.name))))  # type: ignore[arg-type]
