# SPDX-License-Identifier: Apache-2.0
"""Conversion of rows of the table ``instances`` to instances, with the faults and tags from two other tables.

A page of a list has up to a thousand instances, so columns are read by position and enums by a dictionary lookup.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import flavors
from kilonova.db.core import tables as t
from kilonova.db.core.prepared import Prepared
from kilonova.db.core.statements import pieces
from kilonova.deadline import heeding
from kilonova.model.instance import Fault, Instance, PowerState, TaskState, VmState

_I, _T, _F = t.instances.c, t.instance_tags.c, t.instance_faults.c
#: Columns in the order of the fields of Instance, except the last two fields, whose values are in other tables.
_COLUMNS = tuple(field.name for field in fields(Instance))[:-2]
_UUID, _VM_STATE, _TASK_STATE, _POWER_STATE, _FLAVOR, _METADATA, _IMAGE_PROPERTIES = (
    _COLUMNS.index(name)
    for name in ("uuid", "vm_state", "task_state", "power_state", "flavor", "metadata", "image_properties")
)
#: Query for the rows that :func:`complete` takes. JSON columns are read as text, so that equal flavors are parsed once.
ROWS = sa.select(*(sa.cast(_I[name], sa.Text) if isinstance(_I[name].type, sa.JSON) else _I[name] for name in _COLUMNS))
_VM_STATES = {state.value: state for state in VmState}
_TASK_STATES: Mapping[str | None, TaskState | None] = {None: None, **{state.value: state for state in TaskState}}
_POWER_STATES = {state.value: state for state in PowerState}
_TAGS = Prepared(
    sa.select(_T.instance_uuid, _T.tag)
    .where(_T.instance_uuid.in_(sa.bindparam("uuids", expanding=True)))
    .order_by(_T.tag)
)


def complete(connection: Connection, rows: Sequence[Sequence[Any]]) -> tuple[Instance, ...]:
    """Convert rows of :data:`ROWS` to instances, and add the instances' faults and tags."""
    failed = [row[_UUID] for row in rows if row[_VM_STATE] in {VmState.ERROR, VmState.DELETED}]
    faults: dict[str, Fault] = {}
    for some in pieces(failed):
        wanted = sa.select(t.instance_faults).where(_F.instance_uuid.in_(some))
        for row in connection.execute(wanted):
            faults[row.instance_uuid] = Fault(row.code, row.message, row.details, row.created_at)
    tags: dict[str, tuple[str, ...]] = {}
    for some in pieces(rows):
        for uuid, tag in _TAGS.rows(connection, uuids=[row[_UUID] for row in some]):
            tags[uuid] = (*tags.get(uuid, ()), tag)
    return tuple([instance_of(row, tags.get(row[_UUID], ()), faults.get(row[_UUID])) for row in heeding(rows)])


def instance_of(row: Sequence[Any], tags: tuple[str, ...] = (), fault: Fault | None = None) -> Instance:
    """Convert a row of :data:`ROWS` to an instance."""
    values = [*row, tags, fault]
    values[_VM_STATE] = _VM_STATES[values[_VM_STATE]]
    values[_TASK_STATE] = _TASK_STATES[values[_TASK_STATE]]
    values[_POWER_STATE] = _POWER_STATES[values[_POWER_STATE]]
    values[_FLAVOR] = flavors.from_text(values[_FLAVOR])
    values[_METADATA] = orjson.loads(values[_METADATA])
    values[_IMAGE_PROPERTIES] = orjson.loads(values[_IMAGE_PROPERTIES] or "null") or {}
    return Instance(*values)
