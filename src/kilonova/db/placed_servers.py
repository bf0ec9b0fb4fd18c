# SPDX-License-Identifier: Apache-2.0
"""Servers on hosts with what they hold, read in bulk for plans: all of them, or those of some hosts.

Values that many servers share (flavors, image properties, allocations) are one object each.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import flavors
from kilonova.db.change_log.device_json import share_from_json
from kilonova.db.core import tables as t
from kilonova.db.core.statements import pieces
from kilonova.db.request_specs import from_json
from kilonova.deadline import heeding
from kilonova.model.flavor import Flavor
from kilonova.model.host_devices import DeviceShare
from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_migration import MigrationStatus
from kilonova.records import dataclass

_I, _A, _M, _R = t.instances.c, t.allocations.c, t.server_migrations.c, t.request_specs.c
_FETCHED_TOGETHER = 2_000
_COLUMNS = (
    *(_I.uuid, _I.name, _I.host, _I.node, _I.vm_state, _I.task_state, _I.locked_by, _I.project_id, _I.user_id),
    *(_I.group_uuid, _I.request_spec_uuid, _I.launched_at.is_not(None)),
    *(sa.cast(_I.flavor, sa.Text), sa.cast(_I.image_properties, sa.Text)),
)
_PLACED = sa.select(*_COLUMNS).where(_I.deleted.is_(False), _I.host.is_not(None)).order_by(_I.uuid)


class PlacedRow(NamedTuple):
    """The columns of a server that is on a host. ``launched``: whether it was ever launched."""

    uuid: str
    name: str
    host: str
    node: str
    vm_state: str
    task_state: str | None
    locked: bool
    project_id: str
    user_id: str
    group_uuid: str | None
    request_spec_uuid: str | None
    launched: bool
    flavor: Flavor
    image_properties: Mapping[str, str]


def on_hosts(connection: Connection, hosts: Collection[str] | None = None) -> list[PlacedRow]:
    """Return the servers on these service hosts (None: on all hosts), in order of their uuids."""
    if hosts is None:
        return list(_rows(connection, _PLACED))
    found = [row for some in pieces(sorted(hosts)) for row in _rows(connection, _PLACED.where(_I.host.in_(some)))]
    return sorted(found, key=lambda row: row.uuid)


def members_of(connection: Connection, groups: Collection[str]) -> list[PlacedRow]:
    """Return the servers on hosts that are members of these server groups."""
    chosen = (_PLACED.where(_I.group_uuid.in_(some)) for some in pieces(sorted(groups)))
    return [row for statement in chosen for row in _rows(connection, statement)]


def _rows(connection: Connection, statement: sa.Select[Any]) -> Iterator[PlacedRow]:
    properties: dict[str | None, Mapping[str, str]] = {None: {}}
    for chunk in connection.execute(statement).partitions(_FETCHED_TOGETHER):
        for row in heeding(chunk):
            uuid, name, host, node, vm, task, locked_by, project, user, group, spec, launched, flavor, image = row
            if image not in properties:
                properties[image] = orjson.loads(image) or {}
            is_locked, made = locked_by is not None, flavors.from_text(flavor)
            state = vm, task, is_locked
            yield PlacedRow(
                *(uuid, name, host, node or host, *state, project, user, group, spec, bool(launched)),
                *(made, properties[image]),
            )


@dataclass(frozen=True, slots=True)
class HeldResources:
    """What servers hold: consumer uuid → provider uuid → resource class → amount, and consumer uuid → devices."""

    allocations: Mapping[str, Mapping[str, Mapping[str, int]]]
    shares: Mapping[str, DeviceShare]


def held_by(connection: Connection, uuids: Sequence[str] | None) -> HeldResources:
    """Return what these servers hold (None: all consumers)."""
    allocation = sa.select(_A.consumer_uuid, _A.resource_provider_id, _A.resource_class_id, _A.used)
    allocation = allocation.order_by(_A.consumer_uuid, _A.resource_provider_id, _A.resource_class_id)
    share = sa.select(t.device_shares.c.instance_uuid, t.device_shares.c.body)
    if uuids is None:
        parts = [(allocation, share)]
    else:
        parts = [
            (allocation.where(_A.consumer_uuid.in_(some)), share.where(t.device_shares.c.instance_uuid.in_(some)))
            for some in pieces(uuids)
        ]
    amounts: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    shares: dict[str, DeviceShare] = {}
    for one, other in parts:
        for chunk in connection.execute(one).partitions(_FETCHED_TOGETHER):
            for consumer, provider, resource_class, used in heeding(chunk):
                amounts[consumer].append((provider, resource_class, used))
        shares |= {row[0]: share_from_json(row[1]) for row in connection.execute(other)}
    return HeldResources(_by_name(connection, amounts), shares)


def _by_name(
    connection: Connection, amounts: Mapping[str, list[tuple[int, int, int]]]
) -> dict[str, Mapping[str, Mapping[str, int]]]:
    """Return the allocations with the names of their providers and classes. Equal allocations are one object."""
    providers = dict(connection.execute(sa.select(t.resource_providers.c.id, t.resource_providers.c.uuid)).all())
    classes = dict(connection.execute(sa.select(t.resource_classes.c.id, t.resource_classes.c.name)).all())
    known: dict[tuple[tuple[int, int, int], ...], Mapping[str, Mapping[str, int]]] = {}
    found = {}
    for consumer, rows in amounts.items():
        key = tuple(rows)
        if key not in known:
            named: dict[str, dict[str, int]] = {}
            for provider, resource_class, used in rows:
                named.setdefault(providers[provider], {})[classes[resource_class]] = used
            known[key] = named
        found[consumer] = known[key]
    return found


def requests(connection: Connection, uuids: Collection[str]) -> dict[str, tuple[RequestSpec, str | None]]:
    """Return uuid → stored request and its server group, for these requests."""
    found = {}
    for some in pieces(sorted(uuids)):
        for row in connection.execute(sa.select(_R.uuid, _R.body).where(_R.uuid.in_(some))):
            found[row.uuid] = from_json(row.body)
    return found


def evacuated_from(connection: Connection) -> dict[str, frozenset[str]]:
    """Return server → hosts that it was evacuated from and that have not removed its guest yet."""
    found: dict[str, frozenset[str]] = {}
    done = sa.select(_M.instance_uuid, _M.source_host).where(_M.status == MigrationStatus.DONE.value)
    for uuid, host in connection.execute(done):
        found[uuid] = found.get(uuid, frozenset()) | {host}
    return found
