# SPDX-License-Identifier: Apache-2.0
"""Lists of instances: queries with filters, sort keys and paging."""

import re
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.aggregates import hosts_in_zones
from kilonova.db.core import tables as t
from kilonova.db.instance_rows import ROWS, complete
from kilonova.db.instances import stored_value, task_is_one_of
from kilonova.db.name_patterns import AddressPatterns, matching, read_pattern
from kilonova.deadline import heeding
from kilonova.errors import InvalidRequest
from kilonova.model.instance import Instance, TaskState, VmState
from kilonova.records import dataclass

#: A pattern of these characters, of which only the dot has a special meaning, is also a pattern of SQL's LIKE.
_PLAIN_ADDRESS = re.compile(r"[0-9a-f:.]+")
_I, _A = t.instances.c, t.instance_addresses.c


@dataclass(frozen=True, slots=True)
class Zone:
    """An availability zone. ``is_default``: it also contains every host that is in no other zone."""

    name: str
    is_default: bool = False


@dataclass(frozen=True, slots=True)
class InstanceQuery:
    """A query for instances. Fields with default values do not restrict the result.

    ``deleted``: False: existing instances; True: deleted ones; None: both, with soft-deleted ones. ``soft_deleted``:
    whether soft-deleted instances are included; None: only if ``deleted`` is True. ``states``: pairs of vm_state and
    task_states, ORed. ``equals``: column → accepted values. ``patterns``: column → regular expression.
    ``addresses``: IP version → regular expression that an address of this version must match; if two versions are
    given, one match is enough.
    ``sort``: (column, descending) pairs; creation time and id are appended. ``zone``: zone of the host, or the
    requested zone of an instance without a host. ``moments``: column → (start, end) of the accepted times, without the
    end itself. ``metadata``: the instance has all these pairs. ``tags``: the instance has all of them; ``tags_any``:
    has at least one; ``not_tags``: lacks at least one; ``not_tags_any``: has none.
    """

    project_id: str | None = None
    deleted: bool | None = False
    soft_deleted: bool | None = None
    states: tuple[tuple[VmState, frozenset[TaskState | None]], ...] | None = None
    equals: Mapping[str, Collection[Any]] = field(default_factory=dict)
    patterns: Mapping[str, str] = field(default_factory=dict)
    addresses: Mapping[int, str] = field(default_factory=dict)
    zone: Zone | None = None
    moments: Mapping[str, tuple[datetime, datetime]] = field(default_factory=dict)
    changed_since: datetime | None = None
    changed_before: datetime | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    tags_any: tuple[str, ...] = ()
    not_tags: tuple[str, ...] = ()
    not_tags_any: tuple[str, ...] = ()
    sort: tuple[tuple[str, bool], ...] = ()
    limit: int = 1000
    marker: str | None = None


class NamedInstance(NamedTuple):
    """The fields of an instance in a list without details."""

    uuid: str
    name: str


def list_page(connection: Connection, query: InstanceQuery) -> tuple[Instance, ...]:
    """Return one page of instances. Raises: InvalidRequest for an unknown marker or a bad regular expression."""
    page = _page(connection, query, ROWS)
    return complete(connection, connection.execute(page).all())


def list_names(connection: Connection, query: InstanceQuery) -> tuple[NamedInstance, ...]:
    """Return one page of uuids and names. Raises: as :func:`list_page`."""
    page = _page(connection, query, sa.select(_I.uuid, _I.name))
    return tuple(NamedInstance(*row) for row in heeding(connection.execute(page)))


def _page(connection: Connection, query: InstanceQuery, columns: sa.Select[Any]) -> sa.Select[Any]:
    """Return the query for ``columns`` of one page. Raises: InvalidRequest."""
    conditions = _conditions(query)
    sort = [*query.sort]
    for column in ("created_at", "id"):
        if column not in {name for name, _ in sort}:
            sort.append((column, True))
    if query.marker is not None:
        conditions.append(_after(connection, query.marker, query.project_id, sort))
    order = [part for name, descending in sort for part in _ordered(_I[name], descending)]
    if query.patterns or query.addresses:
        conditions = [_I.id.in_(_found_by_patterns(connection, query, conditions, order, query.limit))]
    return columns.where(*conditions).order_by(*order).limit(query.limit)


def count(connection: Connection, query: InstanceQuery) -> int:
    """Count all instances that match a query, ignoring its limit, marker and order.

    Raises: InvalidRequest for a bad regular expression.
    """
    conditions = _conditions(query)
    if not (query.patterns or query.addresses):
        counted = sa.select(sa.func.count()).select_from(t.instances).where(*conditions)
        return int(connection.execute(counted).scalar_one())
    return len(_found_by_patterns(connection, query, conditions, [_I.id], sys.maxsize))


def _found_by_patterns(
    connection: Connection, query: InstanceQuery, conditions: Sequence[Any], order: Sequence[Any], limit: int
) -> list[int]:
    """Return the ids of the first ``limit`` instances that match the regular expressions of a query, in order.

    Raises: InvalidRequest.
    """
    patterns: dict[str, Any] = {name: read_pattern(name, text) for name, text in query.patterns.items()}
    texts = sa.select(_I.id, *(_I[name] for name in patterns))
    if query.addresses:  # a row for each address of an instance
        patterns["ip"] = AddressPatterns(query.addresses)
        texts = texts.add_columns(_A.address).join(t.instance_addresses, _A.instance_uuid == _I.uuid)
        texts = texts.where(sa.or_(*(_may_match(version, text) for version, text in query.addresses.items())))
    texts = texts.where(*conditions).order_by(*order).execution_options(yield_per=1000)
    with connection.execute(texts) as rows:
        return matching(patterns, rows, limit)


def _may_match(version: int, pattern: str) -> Any:
    """Return the SQL condition for addresses of an IP version, including the pattern if SQL can express the pattern."""
    same_version = _A.version == version
    if _PLAIN_ADDRESS.fullmatch(pattern):
        return sa.and_(same_version, _A.address.like(f"%{pattern.replace('.', '_')}%"))
    return same_version


def _conditions(query: InstanceQuery) -> list[Any]:
    conditions: list[Any] = []
    if query.deleted is False:
        conditions.append(_I.deleted.is_(False))
        if not query.soft_deleted:
            conditions.append(_I.vm_state != VmState.SOFT_DELETED.value)
    elif query.deleted:
        hidden = [] if query.soft_deleted is False else [_I.vm_state == VmState.SOFT_DELETED.value]
        conditions.append(sa.or_(_I.deleted.is_(True), *hidden))
    if query.project_id is not None:
        conditions.append(_I.project_id == query.project_id)
    if query.states is not None:
        pairs = [sa.and_(_I.vm_state == vm.value, task_is_one_of(tasks)) for vm, tasks in query.states]
        conditions.append(sa.or_(sa.false(), *pairs))
    for name, values in query.equals.items():
        column = _I[name]
        present = [stored_value(value) for value in values if value is not None]
        either = [column.in_(present)] if present else []
        if None in values:
            either.append(column.is_(None))
        conditions.append(sa.or_(*either) if either else sa.false())
    conditions += [sa.and_(_I[name] >= begin, _I[name] < end) for name, (begin, end) in query.moments.items()]
    if query.zone is not None:
        conditions.append(_in_zone(query.zone))
    conditions += [_I.metadata[key].as_string() == value for key, value in query.metadata.items()]
    if query.tags:
        conditions.append(_tagged_with_all(query.tags))
    if query.tags_any:
        conditions.append(_tagged(query.tags_any))
    if query.not_tags:
        conditions.append(sa.not_(_tagged_with_all(query.not_tags)))
    if query.not_tags_any:
        conditions.append(sa.not_(_tagged(query.not_tags_any)))
    moment = sa.func.coalesce(_I.updated_at, _I.created_at)
    if query.changed_since is not None:
        conditions.append(moment >= query.changed_since)
    if query.changed_before is not None:
        conditions.append(moment <= query.changed_before)
    return conditions


def _after(connection: Connection, marker: str, project_id: str | None, sort: Sequence[tuple[str, bool]]) -> Any:
    """Return the condition for rows after the marker in the order ``sort``. NULL is first, as in :func:`_ordered`."""
    row = connection.execute(sa.select(t.instances).where(_I.uuid == marker)).mappings().first()
    if row is None or project_id not in {None, row["project_id"]}:
        raise InvalidRequest(f"marker [{marker}] not found")
    after: Any = sa.false()
    for name, descending in reversed(sort):
        column, value = _I[name], row[name]
        if value is None:
            beyond: Any = sa.false() if descending else column.is_not(None)
            same = column.is_(None)
        else:
            beyond = sa.or_(column < value, column.is_(None)) if descending else column > value
            same = column == value
        after = sa.or_(beyond, sa.and_(same, after))
    name, descending = sort[0]
    column, value = _I[name], row[name]
    if value is None or column.nullable:
        return after
    # This condition follows from ``after``, but is needed for speed: databases derive no index range from an OR.
    return sa.and_(column <= value if descending else column >= value, after)


def _ordered(column: Any, descending: bool) -> list[Any]:
    """Return sort keys by which NULL comes first on every database; PostgreSQL sorts it last by default."""
    keys = [column.is_not(None), column] if column.nullable else [column]
    return [key.desc() if descending else key.asc() for key in keys]


def _in_zone(zone: Zone) -> Any:
    """Return the condition for servers in ``zone``. A server without a host counts for the zone that was requested."""
    hosts: Any = _I.host.in_(hosts_in_zones(zone.name))
    if zone.is_default:
        hosts = sa.or_(hosts, _I.host.not_in(hosts_in_zones()))
    return sa.or_(sa.and_(_I.host.is_not(None), hosts), sa.and_(_I.host.is_(None), _I.availability_zone == zone.name))


def _tagged(tags: Collection[str]) -> Any:
    table = t.instance_tags.c
    return _I.uuid.in_(sa.select(table.instance_uuid).where(table.tag.in_(list(tags))))


def _tagged_with_all(tags: Collection[str]) -> Any:
    table, wanted = t.instance_tags.c, set(tags)
    having = sa.select(table.instance_uuid).where(table.tag.in_(sorted(wanted))).group_by(table.instance_uuid)
    return _I.uuid.in_(having.having(sa.func.count() == len(wanted)))
