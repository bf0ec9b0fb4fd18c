# SPDX-License-Identifier: Apache-2.0
"""Resource providers, their trees and generations, and their changes in the change log.

A provider's generation is incremented once per committed request that changes it. A request with another generation
than the present one is refused (:func:`kilonova.db.provider_edits.unless_changed`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import provider_states
from kilonova.db.change_log.changes import LoggedUse
from kilonova.db.core import tables as t
from kilonova.db.core.prepared import Prepared
from kilonova.db.core.statements import ManyRows, insert_many, mapping
from kilonova.db.core.transaction import BatchedWrite, Transaction, batched, only
from kilonova.db.provider_states import PROVIDERS, ProviderState, name_taken
from kilonova.errors import Conflict, InvalidRequest, KilonovaError, NotFound
from kilonova.model.provider import Provider
from kilonova.records import dataclass

_ME = t.resource_providers


def find(connection: Connection, uuid: str) -> Provider | None:
    """Return a provider, or None."""
    row = connection.execute(_BY_UUID, {"uuid": uuid}).first()
    return None if row is None else Provider(*row)


def get(connection: Connection, uuid: str) -> Provider:
    """Return a provider. Raises: NotFound."""
    provider = find(connection, uuid)
    if provider is None:
        raise NotFound(f"No resource provider with uuid {uuid} found")
    return provider


@dataclass(frozen=True, slots=True)
class NewProvider:
    """A provider to create; a root unless it has a parent."""

    uuid: str
    name: str
    parent_uuid: str | None = None


class _Named(NamedTuple):
    id: int
    uuid: str
    name: str
    root_provider_id: int


class _Held(NamedTuple):
    id: int
    uuid: str
    has_children: bool
    has_allocations: bool


def create(tx: Transaction, uuid: str, name: str, parent_uuid: str | None = None) -> Provider:
    """Create a provider, a root unless it has a parent.

    Raises: Conflict for an existing uuid or name; InvalidRequest if the parent does not exist or is the provider
    itself.
    """
    return only(_create_all(tx, [NewProvider(uuid, name, parent_uuid)]))


def create_all(tx: Transaction, wanted: Sequence[NewProvider]) -> Sequence[Provider]:
    """Create providers, all or none. Raises: as :func:`create`."""
    return [only([each]) for each in _create_all(tx, wanted)] if wanted else []


def _create_all(tx: Transaction, wanted: Sequence[NewProvider]) -> Sequence[Provider | Exception]:
    uuids = {uuid for one in wanted for uuid in (one.uuid, one.parent_uuid) if uuid is not None}
    rows = [_Named(*row) for row in _NAMED.rows(tx.connection, uuids=list(uuids), names=[one.name for one in wanted])]
    known = {row.uuid: row for row in rows}
    taken_uuids, taken_names = set(known), {row.name for row in rows}
    accepted: list[NewProvider] = []
    refused: dict[int, Exception] = {}
    for number, one in enumerate(wanted):
        try:
            _check_new(one, known, taken_uuids, taken_names)
        except KilonovaError as error:
            refused[number] = error
        else:
            accepted.append(one)
            taken_uuids.add(one.uuid)
            taken_names.add(one.name)
    stored = _insert(tx, accepted, known)
    return [refused[number] if number in refused else stored[one.uuid] for number, one in enumerate(wanted)]


#: Batched form of :func:`create`, for Database.submit_batched.
create_batched: BatchedWrite[NewProvider, Provider] = batched(_create_all)


def _check_new(
    one: NewProvider, known: Mapping[str, Any], taken_uuids: Collection[str], taken_names: Collection[str]
) -> None:
    if one.parent_uuid == one.uuid:
        raise InvalidRequest("parent provider UUID cannot be same as UUID: use null for a provider without parent.")
    if one.parent_uuid is not None and one.parent_uuid not in known:
        raise InvalidRequest("parent provider UUID does not exist.")
    taken = [f"uuid: {one.uuid}"] if one.uuid in taken_uuids else []
    if one.name in taken_names:
        taken.append(f"name: {one.name}")
    if taken:
        raise name_taken(", ".join(taken))


def _insert(tx: Transaction, wanted: Sequence[NewProvider], known: Mapping[str, Any]) -> dict[str, Provider]:
    """Insert new providers and log them for the mirrors. ``known``: uuid → row of their parents."""
    if not wanted:
        return {}
    rows = [
        {
            "uuid": one.uuid,
            "name": one.name,
            "parent": None if one.parent_uuid is None else known[one.parent_uuid].id,
            "root": None if one.parent_uuid is None else known[one.parent_uuid].root_provider_id,
        }
        for one in wanted
    ]
    ids = {uuid: row_id for row_id, uuid in _ADD.rows(tx, rows, now=tx.now)}
    roots_made = [ids[row["uuid"]] for row in rows if row["root"] is None]
    if roots_made:
        _BE_ROOT.run(tx.connection, ids=roots_made)
    roots = {row.id: row.uuid for row in known.values()}
    missing = {row["root"] for row in rows} - roots.keys() - {None}
    if missing:
        roots |= mapping(tx.connection, _OF_IDS, ids=list(missing))
    stored: dict[str, Provider] = {}
    for one, row in zip(wanted, rows, strict=True):
        root_uuid = one.uuid if row["root"] is None else roots[row["root"]]
        provider = Provider(ids[one.uuid], one.uuid, one.name, 0, root_uuid, one.parent_uuid, tx.now)
        provider_states.log(tx, ProviderState(provider, {}, {}, {}))
        stored[one.uuid] = provider
    return stored


def update(
    tx: Transaction,
    uuid: str,
    *,
    name: str,
    move: bool = False,
    parent_uuid: str | None = None,
    reparenting: bool = False,
) -> Provider:
    """Rename a provider and, if ``move``, move it with its subtree below ``parent_uuid`` (None: make it a root).

    Without ``reparenting`` only a root may get a parent. Raises: NotFound, Conflict, InvalidRequest.
    """
    provider = get(tx.connection, uuid)
    if name != provider.name:
        require_free(tx.connection, name)
    values: dict[str, Any] = {"name": name, "updated_at": tx.now}
    moved = [provider.id]
    if move and parent_uuid != provider.parent_uuid:
        parent = _parent_of(tx.connection, parent_uuid)
        if provider.parent_uuid is not None and not reparenting:
            raise InvalidRequest(
                "un-parenting a provider is not currently allowed."
                if parent is None
                else "re-parenting a provider is not currently allowed."
            )
        moved = _subtree(tx.connection, provider)
        if parent is not None and parent.id in moved:
            raise InvalidRequest("creating loop in the provider tree is not allowed.")
        root_id = provider.id if parent is None else _root_id(tx.connection, parent.id)
        values["parent_provider_id"] = None if parent is None else parent.id
        tx.execute(sa.update(_ME).where(_ME.c.id.in_(moved)).values(root_provider_id=root_id))
    elif move and parent_uuid is not None and parent_uuid == uuid:
        raise InvalidRequest("creating loop in the provider tree is not allowed.")
    tx.execute(sa.update(_ME).where(_ME.c.id == provider.id).values(values))
    provider_states.log_stored(tx, moved)
    return get(tx.connection, uuid)


def delete(tx: Transaction, uuid: str) -> None:
    """Delete a provider with its inventories. Raises: NotFound; Conflict while it has children or allocations."""
    only(_delete_all(tx, [uuid]))


def _delete_all(tx: Transaction, uuids: Sequence[str]) -> Sequence[Exception | None]:
    left = {row[1]: _Held(*row) for row in _HELD.rows(tx.connection, uuids=list(uuids))}
    outcomes: list[Exception | None] = []
    gone: list[int] = []
    for uuid in uuids:
        row = left.get(uuid)
        if row is None:
            outcomes.append(NotFound(f"No resource provider with uuid {uuid} found for delete"))
        elif row.has_children:
            message = f"Unable to delete parent resource provider {uuid}: It has child resource providers."
            outcomes.append(Conflict(message, placement_code="placement.resource_provider.cannot_delete_parent"))
        elif row.has_allocations:
            message = f"Unable to delete resource provider {uuid}: Resource provider has allocations."
            outcomes.append(Conflict(message, placement_code="placement.resource_provider.inuse"))
        else:
            del left[uuid]
            gone.append(row.id)
            outcomes.append(None)
            tx.log("provider", uuid, None)
    if gone:
        for statement in _REMOVE:
            statement.run(tx.connection, ids=gone)
    return outcomes


#: Batched form of :func:`delete`, for Database.submit_batched.
delete_batched: BatchedWrite[str, None] = batched(_delete_all)


_TOUCH = Prepared(
    sa.update(_ME)
    .where(_ME.c.id.in_(sa.bindparam("ids", expanding=True)))
    .values(generation=_ME.c.generation + 1, updated_at=sa.bindparam("now", type_=t.Time))
)


def touch(tx: Transaction, provider_ids: Collection[int]) -> None:
    """Increment the generation of each provider without checking the present generation."""
    if not provider_ids:
        return
    _TOUCH.run(tx.connection, ids=sorted(provider_ids), now=tx.now)


def rise(tx: Transaction, steps: Mapping[int, int]) -> None:
    """Increase the generation of each provider by its number of steps."""
    _RISE.run(
        tx, [{"provider": provider_id, "steps": count} for provider_id, count in sorted(steps.items())], now=tx.now
    )


_RISE = ManyRows(
    {"provider": sa.BigInteger(), "steps": sa.BigInteger()},
    lambda given: (
        sa.update(t.resource_providers)
        .where(t.resource_providers.c.id == given["provider"])
        .values(
            generation=t.resource_providers.c.generation + given["steps"],
            updated_at=sa.bindparam("now", type_=t.Time),
        )
    ),
)


# --- statements -----------------------------------------------------------------------------------------------------


_BY_UUID = PROVIDERS.where(_ME.c.uuid == sa.bindparam("uuid"))
_UUIDS: sa.BindParameter[Any] = sa.bindparam("uuids", expanding=True)
_IDS: sa.BindParameter[Any] = sa.bindparam("ids", expanding=True)
_NAMED = Prepared(
    sa.select(_ME.c.id, _ME.c.uuid, _ME.c.name, _ME.c.root_provider_id).where(
        _ME.c.uuid.in_(_UUIDS) | _ME.c.name.in_(sa.bindparam("names", expanding=True))
    )
)
_OF_IDS = Prepared(sa.select(_ME.c.id, _ME.c.uuid).where(_ME.c.id.in_(_IDS)))
_ADD = insert_many(
    _ME,
    {"uuid": "uuid", "name": "name", "parent_provider_id": "parent", "root_provider_id": "root"},
    returning=("id", "uuid"),
    generation=sa.literal(0),
    created_at=sa.bindparam("now", type_=t.Time),
)
_BE_ROOT = Prepared(sa.update(_ME).where(_ME.c.id.in_(_IDS)).values(root_provider_id=_ME.c.id))
_child = _ME.alias("child")
_HELD = Prepared(
    sa.select(
        _ME.c.id,
        _ME.c.uuid,
        # The subquery selects an indexed column: otherwise SQLite scans the whole table if ANALYZE ran without child
        # providers.
        sa.exists(_child.c.parent_provider_id).where(_child.c.parent_provider_id == _ME.c.id).label("has_children"),
        sa.exists(t.allocations.c.resource_provider_id)
        .where(t.allocations.c.resource_provider_id == _ME.c.id)
        .label("has_allocations"),
    ).where(_ME.c.uuid.in_(_UUIDS))
)
_REMOVE = (
    *(
        Prepared(sa.delete(table).where(table.c.resource_provider_id.in_(_IDS)))
        for table in (t.inventories, t.resource_provider_aggregates, t.resource_provider_traits)
    ),
    Prepared(sa.update(_ME).where(_ME.c.id.in_(_IDS)).values(root_provider_id=None)),
    Prepared(sa.delete(_ME).where(_ME.c.id.in_(_IDS))),
)
_USAGES = Prepared(
    sa.select(_ME.c.uuid, _ME.c.generation, t.resource_classes.c.name, t.inventories.c.used)
    .select_from(_ME)
    .outerjoin(t.inventories, t.inventories.c.resource_provider_id == _ME.c.id)
    .outerjoin(t.resource_classes, t.resource_classes.c.id == t.inventories.c.resource_class_id)
    .where(_ME.c.id.in_(sa.bindparam("ids", expanding=True)))
)


# --- change log -----------------------------------------------------------------------------------------------------


def log_usage(tx: Transaction, provider_ids: Collection[int]) -> None:
    """Log generation and usage of providers whose allocations changed, by one query."""
    if not provider_ids:
        return
    sent = _USAGES.send(tx.connection, ids=list(provider_ids))
    tx.then(lambda: _log_usages(tx, sent.rows()))


def _log_usages(tx: Transaction, rows: Iterable[tuple[Any, ...]]) -> None:
    usages: dict[tuple[str, int], dict[str, int]] = {}
    for uuid, generation, name, used in rows:
        usage = usages.setdefault((uuid, generation), {})
        if name is not None:
            usage[name] = used
    for (uuid, generation), usage in usages.items():
        tx.log("usage", uuid, LoggedUse(generation, usage))


def aggregate_uuids(connection: Connection, provider_id: int) -> list[str]:
    """Return the Placement aggregates of a provider, oldest first."""
    links, aggregates = t.resource_provider_aggregates, t.placement_aggregates
    statement = sa.select(aggregates.c.uuid).join(links, links.c.aggregate_id == aggregates.c.id)
    return list(
        connection.execute(
            statement.where(links.c.resource_provider_id == provider_id).order_by(aggregates.c.id)
        ).scalars()
    )


# --- parts ----------------------------------------------------------------------------------------------------------


def _parent_of(connection: Connection, parent_uuid: str | None) -> Provider | None:
    if parent_uuid is None:
        return None
    parent = find(connection, parent_uuid)
    if parent is None:
        raise InvalidRequest("parent provider UUID does not exist.")
    return parent


def _root_id(connection: Connection, provider_id: int) -> int:
    return int(connection.execute(sa.select(_ME.c.root_provider_id).where(_ME.c.id == provider_id)).scalar_one())


def require_free(connection: Connection, name: str) -> None:
    if connection.execute(sa.select(_ME.c.id).where(_ME.c.name == name)).first() is not None:
        raise name_taken(name)


def _subtree(connection: Connection, provider: Provider) -> list[int]:
    """Return the ids of a provider and its descendants, parents first."""
    root_id = _root_id(connection, provider.id)
    children: dict[int, list[int]] = {}
    rows = connection.execute(sa.select(_ME.c.id, _ME.c.parent_provider_id).where(_ME.c.root_provider_id == root_id))
    for row_id, parent_id in rows:
        children.setdefault(parent_id, []).append(row_id)
    found = [provider.id]
    for row_id in found:
        found += children.get(row_id, [])
    return found
