# SPDX-License-Identifier: Apache-2.0
"""Resource usage of servers, computed from their flavors: of all servers on a host, or of all servers in a period."""

from collections.abc import Iterator
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import flavors
from kilonova.db.core import tables as t
from kilonova.deadline import heeding
from kilonova.errors import InvalidRequest
from kilonova.model.flavor import Flavor
from kilonova.model.instance import VmState
from kilonova.records import dataclass

_I = t.instances.c


@dataclass(frozen=True, slots=True)
class ServerUsage:
    """A server that existed in a period. ``terminated_at``: None while the server exists."""

    uuid: str
    name: str
    project_id: str
    vm_state: VmState
    flavor: Flavor
    launched_at: datetime
    terminated_at: datetime | None


def on_host(connection: Connection, host: str) -> Iterator[tuple[str, Flavor]]:
    """Yield project and flavor of each server on a host."""
    wanted = sa.select(_I.project_id, _I.flavor).where(_I.host == host, _I.deleted.is_(False))
    for project_id, flavor in heeding(connection.execute(wanted.order_by(_I.project_id))):
        yield project_id, flavors.from_json(flavor)


def in_period(
    connection: Connection,
    start: datetime,
    stop: datetime,
    *,
    project_id: str | None,
    limit: int,
    marker: str | None = None,
) -> Iterator[ServerUsage]:
    """Yield the servers that existed between two times, including deleted servers, sorted by project and uuid.

    ``marker``: uuid of the last server of the previous page. Raises: InvalidRequest for an unknown marker.
    """
    wanted = sa.select(_I.uuid, _I.name, _I.project_id, _I.vm_state, _I.flavor, _I.launched_at, _I.terminated_at).where(
        _I.launched_at < stop, sa.or_(_I.terminated_at.is_(None), _I.terminated_at > start)
    )
    if project_id is not None:
        wanted = wanted.where(_I.project_id == project_id)
    if marker is not None:
        last = connection.execute(sa.select(_I.project_id).where(_I.uuid == marker)).scalar()
        if last is None or project_id not in {None, last}:
            raise InvalidRequest(f"marker [{marker}] not found", field="marker")
        same = sa.and_(_I.project_id == last, _I.uuid > marker)
        wanted = wanted.where(_I.project_id >= last, sa.or_(_I.project_id > last, same))
    for row in heeding(connection.execute(wanted.order_by(_I.project_id, _I.uuid).limit(limit))):
        yield ServerUsage(
            row.uuid,
            row.name,
            row.project_id,
            VmState(row.vm_state),
            flavors.from_json(row.flavor),
            row.launched_at,
            row.terminated_at,
        )
