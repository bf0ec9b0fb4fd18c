# SPDX-License-Identifier: Apache-2.0
"""Flavors, their extra specs, and the projects that may use private flavors."""

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.core import tables as t
from kilonova.db.core.prepared import Prepared
from kilonova.db.core.transaction import Transaction
from kilonova.deadline import heeding
from kilonova.errors import Conflict, NotFound
from kilonova.model.flavor import Flavor

#: Size of the cache of parsed flavors of servers.
_REMEMBERED = 1_000
_GET = Prepared(sa.select(t.flavors).where(t.flavors.c.flavor_id == sa.bindparam("flavor_id")))
_COLUMNS = tuple(t.flavors.c.keys())
_SPECS = sa.select(t.flavor_extra_specs).order_by(t.flavor_extra_specs.c.key)
_SPECS_OF_ONE = Prepared(_SPECS.where(t.flavor_extra_specs.c.flavor_id == sa.bindparam("id")))


def create(tx: Transaction, flavor: Flavor) -> Flavor:
    """Store a new flavor. Raises: Conflict if a flavor has its name or id."""
    for column, value, label in (
        (t.flavors.c.flavor_id, flavor.flavor_id, "ID"),
        (t.flavors.c.name, flavor.name, "name"),
    ):
        if tx.execute(sa.select(t.flavors.c.id).where(column == value)).first() is not None:
            raise Conflict(f"Flavor with {label} {value} already exists.")
    row = {
        field.name: getattr(flavor, field.name)
        for field in dataclasses.fields(flavor)
        if field.name not in {"extra_specs", "created_at", "updated_at"}
    }
    tx.execute(sa.insert(t.flavors), {**row, "created_at": tx.now})
    return get(tx.connection, flavor.flavor_id)


def update_description(tx: Transaction, flavor_id: str, description: str | None) -> Flavor:
    """Change the description of a flavor. Raises: NotFound."""
    _row_id(tx.connection, flavor_id)
    values = {"description": description, "updated_at": tx.now}
    tx.execute(sa.update(t.flavors).where(t.flavors.c.flavor_id == flavor_id).values(values))
    return get(tx.connection, flavor_id)


def delete(tx: Transaction, flavor_id: str) -> None:
    """Delete a flavor; instances keep their own copies. Raises: NotFound."""
    row_id = _row_id(tx.connection, flavor_id)
    for table in (t.flavor_extra_specs, t.flavor_projects):
        tx.execute(sa.delete(table).where(table.c.flavor_id == row_id))
    tx.execute(sa.delete(t.flavors).where(t.flavors.c.id == row_id))


def get(connection: Connection, flavor_id: str) -> Flavor:
    """Return a flavor by its public id. Raises: NotFound."""
    rows = _GET.rows(connection, flavor_id=flavor_id)
    if not rows:
        raise NotFound(f"Flavor {flavor_id} could not be found.")
    return _flavors(connection, [dict(zip(_COLUMNS, rows[0], strict=True))])[0]


def list_visible(
    connection: Connection, *, project_id: str | None = None, is_public: bool | None = None
) -> tuple[Flavor, ...]:
    """Return flavors sorted by flavor id. ``project_id``: only public flavors and flavors that this project may use.

    ``is_public``: only public flavors (True) or only private ones (False); ignored if ``project_id`` is given.
    """
    statement = sa.select(t.flavors).order_by(t.flavors.c.flavor_id)
    if project_id is not None:
        own = sa.select(t.flavor_projects.c.flavor_id).where(t.flavor_projects.c.project_id == project_id)
        statement = statement.where(t.flavors.c.is_public.is_(True) | t.flavors.c.id.in_(own))
    elif is_public is not None:
        statement = statement.where(t.flavors.c.is_public.is_(is_public))
    return _flavors(connection, connection.execute(statement).mappings().all())


def merge_extra_specs(tx: Transaction, flavor_id: str, specs: Mapping[str, str]) -> None:
    """Set extra specs and keep all other keys. Raises: NotFound."""
    row_id = _row_id(tx.connection, flavor_id)
    table = t.flavor_extra_specs
    tx.execute(sa.delete(table).where(table.c.flavor_id == row_id, table.c.key.in_(list(specs))))
    if specs:
        tx.execute(
            sa.insert(table), [{"flavor_id": row_id, "key": key, "value": value} for key, value in specs.items()]
        )


def delete_extra_spec(tx: Transaction, flavor_id: str, key: str) -> None:
    """Remove one extra spec. Raises: NotFound for the flavor or the key."""
    row_id = _row_id(tx.connection, flavor_id)
    table = t.flavor_extra_specs
    if tx.execute(sa.delete(table).where(table.c.flavor_id == row_id, table.c.key == key)).rowcount == 0:
        raise NotFound(f"Flavor {flavor_id} has no extra specs with key {key}.")


def projects(connection: Connection, flavor_id: str) -> tuple[str, ...]:
    """Return the projects that may use a private flavor. Raises: NotFound."""
    row_id = _row_id(connection, flavor_id)
    table = t.flavor_projects
    return tuple(
        connection.execute(
            sa.select(table.c.project_id).where(table.c.flavor_id == row_id).order_by(table.c.project_id)
        ).scalars()
    )


def all_projects(connection: Connection) -> dict[str, frozenset[str]]:
    """Return public id → projects that may use it, for every private flavor."""
    share = t.flavor_projects
    joined = (
        sa.select(t.flavors.c.flavor_id, share.c.project_id)
        .outerjoin(share, share.c.flavor_id == t.flavors.c.id)
        .where(t.flavors.c.is_public.is_(False))
    )
    found: dict[str, set[str]] = {}
    for flavor_id, project_id in connection.execute(joined):
        found.setdefault(flavor_id, set()).update({project_id} - {None})
    return {flavor_id: frozenset(shared) for flavor_id, shared in found.items()}


def add_project(tx: Transaction, flavor_id: str, project_id: str) -> None:
    """Give a project access to a flavor. Raises: NotFound; Conflict if the project has access already."""
    row_id = _row_id(tx.connection, flavor_id)
    if project_id in projects(tx.connection, flavor_id):
        raise Conflict(f"Flavor access already exists for flavor {flavor_id} and project {project_id} combination.")
    tx.execute(sa.insert(t.flavor_projects), {"flavor_id": row_id, "project_id": project_id})


def remove_project(tx: Transaction, flavor_id: str, project_id: str) -> None:
    """Remove a project's access to a flavor. Raises: NotFound for the flavor or the access."""
    row_id = _row_id(tx.connection, flavor_id)
    table = t.flavor_projects
    gone = tx.execute(sa.delete(table).where(table.c.flavor_id == row_id, table.c.project_id == project_id))
    if gone.rowcount == 0:
        raise NotFound(f"Flavor access not found for {flavor_id} / {project_id} combination.")


def numbers(connection: Connection, flavor_ids: Collection[str]) -> dict[str, int]:
    """Return public id → row id of the existing flavors among ``flavor_ids``."""
    wanted = sa.select(t.flavors.c.flavor_id, t.flavors.c.id).where(t.flavors.c.flavor_id.in_(list(flavor_ids)))
    return {row.flavor_id: row.id for row in connection.execute(wanted)}


def as_json(flavor: Flavor) -> dict[str, Any]:
    """Return the copy of a flavor that an instance keeps, as JSON data."""
    return {
        field.name: getattr(flavor, field.name)
        for field in dataclasses.fields(flavor)
        if field.name not in {"created_at", "updated_at"}
    } | {"extra_specs": dict(flavor.extra_specs)}


def from_json(value: Mapping[str, Any]) -> Flavor:
    """Parse the result of :func:`as_json`."""
    return Flavor(**value)


@lru_cache(_REMEMBERED)
def from_text(text: str) -> Flavor:
    """Parse the JSON text of :func:`as_json`. Cached: servers with equal flavors share one object."""
    return from_json(orjson.loads(text))


def _row_id(connection: Connection, flavor_id: str) -> int:
    row_id = connection.execute(sa.select(t.flavors.c.id).where(t.flavors.c.flavor_id == flavor_id)).scalar()
    if row_id is None:
        raise NotFound(f"Flavor {flavor_id} could not be found.")
    return int(row_id)


def _flavors(connection: Connection, rows: Sequence[Mapping[Any, Any]]) -> tuple[Flavor, ...]:
    specs: dict[int, dict[str, str]] = {row["id"]: {} for row in rows}
    found: Iterable[Any] = (
        _SPECS_OF_ONE.rows(connection, id=rows[0]["id"]) if len(rows) == 1 else connection.execute(_SPECS)
    )
    for flavor_id, key, value in heeding(found):
        if flavor_id in specs:
            specs[flavor_id][key] = value
    return tuple(
        Flavor(**{name: value for name, value in row.items() if name != "id"}, extra_specs=specs[row["id"]])
        for row in heeding(rows)
    )
