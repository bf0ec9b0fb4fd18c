# SPDX-License-Identifier: Apache-2.0
"""Instances: rows, state changes by compare-and-swap, and faults.

Every change that concerns the scheduler (host, I/O operations) is logged for the mirrors in the same transaction.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import flavors, quotas, server_migrations
from kilonova.db.change_log.changes import LoggedInstance
from kilonova.db.core import tables as t
from kilonova.db.core.prepared import Prepared, PreparedInsert, PreparedUpdate
from kilonova.db.core.statements import ManyRows, mapping, pieces
from kilonova.db.core.transaction import Transaction
from kilonova.db.instance_rows import ROWS, complete, instance_of
from kilonova.db.mirror_source import instance_value
from kilonova.errors import NotFound, UnexpectedTaskState
from kilonova.model.instance import Fault, Instance, PowerState, TaskState, VmState, is_io_heavy
from kilonova.model.quota import Usage
from kilonova.model.transitions import TRANSITIONS
from kilonova.records import dataclass

_I = t.instances.c
_INSERT = PreparedInsert(t.instances)
_PRESENT = _I.uuid.in_(sa.bindparam("uuids", expanding=True)), _I.deleted.is_(False)
_COUNTED = Prepared(sa.select(_I.project_id, _I.user_id, _I.flavor, _I.vm_state, _I.task_state).where(*_PRESENT))
_MARK_DELETED = PreparedUpdate(t.instances, *_PRESENT)
_FIND = Prepared(ROWS.where(_I.uuid == sa.bindparam("uuid"), _I.deleted.is_(False)))
_FIND_ANY = Prepared(ROWS.where(_I.uuid == sa.bindparam("uuid")))
_WHERE_IT_IS = Prepared(
    sa.select(_I.host, _I.node, _I.vm_state, _I.task_state, _I.deleted, _I.flavor_id, _I.image_properties).where(
        _I.uuid == sa.bindparam("uuid")
    )
)
_NUMBERS = Prepared(
    sa.select(_I.uuid, _I.id).where(_I.reservation_id.in_(sa.bindparam("reservations", expanding=True)))
)
_HOSTS = Prepared(sa.select(_I.uuid, _I.host).where(_I.uuid.in_(sa.bindparam("uuids", expanding=True))))
_TASK = Prepared(sa.select(_I.task_state).where(_I.uuid == sa.bindparam("uuid"), _I.deleted.is_(False)))
_PLACE = Prepared(sa.select(_I.host, _I.group_uuid).where(_I.uuid == sa.bindparam("uuid")))
ANY_TASK: frozenset[TaskState | None] = frozenset({None, *TaskState})
_FAULT_TEXT = 255
_FAULT_DETAILS = 16_000


def insert(tx: Transaction, built: Sequence[tuple[Instance, str | None]]) -> None:
    """Insert new instances, each with its server group or None. Quotas are not changed: see :func:`quotas.take`."""
    _INSERT.run(tx.connection, [_new_row(instance, tx.now, group_uuid) for instance, group_uuid in built])
    tags = [{"instance_uuid": instance.uuid, "tag": tag} for instance, _ in built for tag in instance.tags]
    if tags:
        tx.execute(sa.insert(t.instance_tags), tags)


def _new_row(instance: Instance, now: datetime, group_uuid: str | None) -> dict[str, Any]:
    return {
        "uuid": instance.uuid,
        "name": instance.name,
        "hostname": instance.hostname,
        "description": instance.description,
        "project_id": instance.project_id,
        "user_id": instance.user_id,
        "vm_state": instance.vm_state.value,
        "task_state": instance.task_state and instance.task_state.value,
        "power_state": int(instance.power_state),
        "flavor_id": instance.flavor.flavor_id,
        "flavor": flavors.as_json(instance.flavor),
        "image_ref": instance.image_ref,
        "image_properties": dict(instance.image_properties),
        "key_name": instance.key_name,
        "config_drive": instance.config_drive,
        "metadata": dict(instance.metadata),
        "reservation_id": instance.reservation_id,
        "launch_index": instance.launch_index,
        "availability_zone": instance.availability_zone,
        "disk_config": instance.disk_config,
        "access_ip_v4": instance.access_ip_v4,
        "access_ip_v6": instance.access_ip_v6,
        "progress": 0,
        "group_uuid": group_uuid,
        "request_spec_uuid": instance.request_spec_uuid,
        "created_at": now,
        "deleted": False,
    }


def get(connection: Connection, uuid: str) -> Instance:
    """Return an instance that is not deleted. Raises: NotFound."""
    found = find(connection, uuid)
    if found is None:
        raise NotFound(f"Instance {uuid} could not be found.")
    return found


def get_bare(connection: Connection, uuid: str) -> Instance:
    """Return an instance that is not deleted, without its fault and its tags. Raises: NotFound."""
    rows = _FIND.rows(connection, uuid=uuid)
    if not rows:
        raise NotFound(f"Instance {uuid} could not be found.")
    return instance_of(rows[0])


def find(connection: Connection, uuid: str) -> Instance | None:
    """Return an instance that is not deleted, or None."""
    return _found(connection, _FIND, uuid)


def find_any(connection: Connection, uuid: str) -> Instance | None:
    """Return an instance that exists or is deleted but not purged, or None."""
    return _found(connection, _FIND_ANY, uuid)


def _found(connection: Connection, statement: Prepared, uuid: str) -> Instance | None:
    rows = statement.rows(connection, uuid=uuid)
    return complete(connection, rows)[0] if rows else None


def numbers(connection: Connection, reservation_ids: Collection[str]) -> dict[str, int]:
    """Return instance uuid → id, for all instances of these reservations."""
    return mapping(connection, _NUMBERS, reservations=list(reservation_ids))


def get_many(connection: Connection, uuids: Sequence[str]) -> tuple[Instance, ...]:
    """Return the instances among ``uuids`` that are not deleted, without faults and tags.

    They are sorted by id within each batch of 500 uuids.
    """
    found: list[Instance] = []
    for chunk in pieces(uuids):
        statement = ROWS.where(_I.uuid.in_(chunk), _I.deleted.is_(False)).order_by(_I.id)
        found += [instance_of(row) for row in connection.execute(statement)]
    return tuple(found)


def rescued_before(connection: Connection, moment: datetime, limit: int) -> tuple[Instance, ...]:
    """Return up to ``limit`` instances without a task that have been in rescue mode since before ``moment``."""
    at_rest = _I.deleted.is_(False), _I.task_state.is_(None)
    due = sa.select(_I.uuid).where(_I.vm_state == VmState.RESCUED.value, _I.launched_at < moment, *at_rest)
    return get_many(connection, list(connection.execute(due.order_by(_I.launched_at).limit(limit)).scalars()))


def hosts_of(connection: Connection, uuids: Sequence[str]) -> dict[str, frozenset[str]]:
    """Return uuid → all hosts on which the guest may be: none if the instance is deleted or has no host.

    An instance that is moving has both hosts of its migration. Unknown uuids are left out.
    """
    found: dict[str, frozenset[str]] = {}
    for chunk in pieces(uuids):
        for uuid, host in _HOSTS.rows(connection, uuids=chunk):
            found[uuid] = frozenset() if host is None else frozenset({host})
        for migration in server_migrations.open_of(connection, chunk):
            if found.get(migration.instance_uuid):
                found[migration.instance_uuid] |= migration.hosts
    return found


def deletions(connection: Connection, uuids: Collection[str]) -> dict[str, bool]:
    """Return uuid → whether the instance was deleted, for those of these uuids that are instances."""
    found: dict[str, bool] = {}
    for some in pieces(uuids):
        chosen = sa.select(_I.uuid, _I.deleted).where(_I.uuid.in_(some))
        found |= {row.uuid: row.deleted for row in connection.execute(chosen)}
    return found


def task_of(connection: Connection, uuid: str) -> TaskState | None:
    """Return the task state of an instance; None if it has no task or does not exist."""
    rows = _TASK.rows(connection, uuid=uuid)
    return TaskState(rows[0][0]) if rows and rows[0][0] is not None else None


def place_of(connection: Connection, uuid: str) -> tuple[str | None, str | None]:
    """Return the host of an instance, and the server group in which it was created; each may be None."""
    rows = _PLACE.rows(connection, uuid=uuid)
    return (rows[0][0], rows[0][1]) if rows else (None, None)


def group_of(connection: Connection, uuid: str) -> str | None:
    """Return the server group in which an instance was created, or None."""
    return place_of(connection, uuid)[1]


def leave_group(tx: Transaction, uuid: str) -> None:
    """Clear the server group of an instance, so that later claims do not count it.

    The caller also removes it from the group's guard rows.
    """
    tx.execute(sa.update(t.instances).where(_I.uuid == uuid).values(group_uuid=None))


def change(
    tx: Transaction,
    uuid: str,
    *,
    expected_tasks: Collection[TaskState | None] | None = None,
    expected_states: Collection[VmState] | None = None,
    **values: Any,
) -> None:
    """Set columns of an instance if its states are the expected ones (compare-and-swap).

    ``values``: columns by name; ``vm_state``, ``task_state`` and ``power_state`` as enums.
    Raises: NotFound, UnexpectedTaskState.
    """
    changing = _changing(
        None if expected_tasks is None else frozenset(expected_tasks),
        None if expected_states is None else frozenset(expected_states),
    )
    row = {name: stored_value(value) for name, value in values.items()}
    if changing.run(tx.connection, {**row, "updated_at": tx.now}, of=uuid) == 0:
        current = tx.execute(
            sa.select(_I.vm_state, _I.task_state).where(_I.uuid == uuid, _I.deleted.is_(False))
        ).first()
        if current is None:
            raise NotFound(f"Instance {uuid} could not be found.")
        is_the_task = expected_tasks is not None and current.task_state not in expected_tasks
        expected = sorted(map(str, (expected_tasks if is_the_task else expected_states) or ()))
        actual = current.task_state if is_the_task else current.vm_state
        raise UnexpectedTaskState(
            f"Conflict updating instance {uuid}. Expected: {expected}. Actual: {actual}.",
            vm_state=current.vm_state,
            task_state=current.task_state,
        )
    if {"host", "node", "vm_state", "task_state"} & set(values):
        log(tx, uuid)


@cache
def _changing(
    expected_tasks: frozenset[TaskState | None] | None, expected_states: frozenset[VmState] | None
) -> PreparedUpdate:
    """Return the UPDATE of an instance, named ``of``, that has the expected states."""
    conditions: list[Any] = [_I.uuid == sa.bindparam("of"), _I.deleted.is_(False)]
    if expected_tasks is not None:
        conditions.append(task_is_one_of(expected_tasks))
    if expected_states is not None:
        conditions.append(_I.vm_state.in_([state.value for state in expected_states]))
    return PreparedUpdate(t.instances, *conditions)


_SHOW_TASK = Prepared(
    sa.update(t.instances)
    # No condition on ``deleted``: a deleted instance has no task, and SQLite would choose a worse index.
    .where(
        _I.uuid.in_(sa.bindparam("uuids", expanding=True)), _I.task_state.in_(sa.bindparam("before", expanding=True))
    )
    .values(task_state=sa.bindparam("task"), updated_at=sa.bindparam("now", type_=t.Time))
)


def show_tasks(tx: Transaction, uuids: Sequence[str], before: Sequence[TaskState], task: TaskState) -> None:
    """Set the task state of instances that have one of the task states ``before``.

    Raises: NotFound, UnexpectedTaskState, if an instance has none of them.
    """
    tasks = [each.value for each in before]
    for some in pieces(uuids):
        if _SHOW_TASK.run(tx.connection, uuids=some, before=tasks, task=task.value, now=tx.now) != len(some):
            for uuid in some:  # raises for the instance that has another task
                change(tx, uuid, expected_tasks={*before}, task_state=task)
    if any(is_io_heavy("", each) for each in (*before, task)):  # otherwise the mirrors have no use for the change
        for uuid in uuids:
            log(tx, uuid)


def set_progress(tx: Transaction, uuid: str, tasks: Collection[TaskState], percent: int) -> None:
    """Set the progress of an instance if it still has one of these tasks; otherwise do nothing."""
    mine = sa.update(t.instances).where(_I.uuid == uuid, _I.deleted.is_(False), task_is_one_of(tasks))
    tx.execute(mine.values(progress=percent))


def show_task(
    tx: Transaction, uuid: str, before: Collection[TaskState], task: TaskState, *, workflow: str, attempt: int
) -> None:
    """Set the task state of an instance if it has one of the tasks ``before`` and the step is still running.

    ``workflow``, ``attempt``: identify the step. Do nothing if a condition is not met.
    """
    step = sa.exists().where(t.workflows.c.uuid == workflow, t.workflows.c.attempt == attempt)
    mine = sa.update(t.instances).where(_I.uuid == uuid, _I.deleted.is_(False), task_is_one_of(before), step)
    changed = tx.execute(mine.values(task_state=task.value, updated_at=tx.now)).rowcount
    if changed and any(is_io_heavy("", each) for each in (*before, task)):
        log(tx, uuid)


@dataclass(frozen=True, slots=True)
class Activation:
    """An instance whose guest was spawned on ``host`` and ``node``, with its flavor id and image properties."""

    uuid: str
    host: str
    node: str
    flavor_id: str
    image_properties: Mapping[str, str]


_BUILD = TRANSITIONS["build"]
assert _BUILD.settled is not None
_BUILT = _BUILD.settled.value
_ACTIVATE = ManyRows(
    {"uuid": _I.uuid.type, "host": _I.host.type},
    lambda given: (
        sa.update(t.instances)
        .where(
            # No condition on ``deleted``: a deleted instance has no task, and SQLite would choose a worse index.
            _I.uuid == given["uuid"],
            _I.task_state == _BUILD.shown[-1].value,
            _I.host == given["host"],
        )
        .values(
            vm_state=_BUILT,
            task_state=None,
            power_state=int(PowerState.RUNNING),
            launched_at=sa.bindparam("now", type_=t.Time),
            updated_at=sa.bindparam("now", type_=t.Time),
        )
    ),
)


def activate(tx: Transaction, built: Sequence[Activation]) -> None:
    """Set the instances of ``built``, whose guests were spawned, to ACTIVE. Raises: UnexpectedTaskState."""
    rows = [{"uuid": item.uuid, "host": item.host} for item in built]
    if _ACTIVATE.run(tx, rows, now=tx.now) != len(rows):
        raise UnexpectedTaskState("At least one instance is no longer spawning on the expected host.")
    for item in built:
        kind = item.flavor_id, item.image_properties
        tx.log("instance", item.uuid, instance_value(item.host, item.node, _BUILT, None, *kind))


def log(tx: Transaction, uuid: str) -> None:
    """Log host, flavor, image properties and I/O activity of an instance for the mirrors."""
    value: LoggedInstance | None = None
    for host, node, vm_state, task_state, deleted, flavor_id, properties in _WHERE_IT_IS.rows(tx.connection, uuid=uuid):
        if host is not None and not deleted:
            value = instance_value(host, node, vm_state, task_state, flavor_id, properties or {})
    tx.log("instance", uuid, value)


def record_fault(tx: Transaction, uuid: str, fault: Fault) -> None:
    """Store the newest fault of an instance."""
    record_faults(tx, {uuid: fault})


def record_faults(tx: Transaction, faults: Mapping[str, Fault]) -> None:
    """Store the newest fault of each instance."""
    table = t.instance_faults
    tx.execute(sa.delete(table).where(table.c.instance_uuid.in_(list(faults))))
    rows = [
        {
            "instance_uuid": uuid,
            "code": fault.code,
            "message": fault.message[:_FAULT_TEXT],
            "details": fault.details[:_FAULT_DETAILS],
            "created_at": tx.now,
        }
        for uuid, fault in faults.items()
    ]
    tx.execute(sa.insert(table), rows)


def fail(tx: Transaction, faults: Mapping[str, Fault], expected_tasks: Collection[TaskState]) -> frozenset[str]:
    """Set the instances that have an expected task to ERROR, clear their hosts, store their faults.

    Returns the uuids of these instances.
    """
    waiting = sa.and_(_I.uuid.in_(list(faults)), _I.deleted.is_(False), task_is_one_of(expected_tasks))
    failed = list(tx.execute(sa.select(_I.uuid, _I.host).where(waiting)))
    if not failed:
        return frozenset()
    uuids = [row.uuid for row in failed]
    values = {"vm_state": VmState.ERROR.value, "task_state": None, "host": None, "node": None, "updated_at": tx.now}
    tx.execute(sa.update(t.instances).where(_I.uuid.in_(uuids)).values(values))
    record_faults(tx, {uuid: faults[uuid] for uuid in uuids})
    for row in failed:
        if row.host is not None:
            tx.log("instance", row.uuid, None)
    return frozenset(uuids)


def mark_deleted(tx: Transaction, *uuids: str) -> None:
    """Mark instances as deleted and release their quota; already deleted instances are skipped."""
    less: dict[tuple[str, str], Usage] = {}
    counted = _COUNTED.rows(tx.connection, uuids=list(uuids)) if uuids else ()
    for project_id, user_id, flavor, vm_state, task_state in counted:
        if quotas.counts(vm_state, task_state):
            owner = project_id, user_id
            less[owner] = less.get(owner, Usage()) + Usage.of(flavors.from_json(flavor))
    for owner, usage in less.items():
        quotas.give_back(tx, *owner, usage)
    values = {
        "deleted": True,
        "vm_state": VmState.DELETED.value,
        "task_state": None,
        "power_state": int(PowerState.NOSTATE),
        "host": None,
        "node": None,
        "deleted_at": tx.now,
        "terminated_at": tx.now,
        "updated_at": tx.now,
    }
    if uuids:
        _MARK_DELETED.run(tx.connection, values, uuids=list(uuids))
    for uuid in uuids:
        tx.log("instance", uuid, None)


def task_is_one_of(tasks: Collection[TaskState | None]) -> Any:
    """Return the condition that the task state is one of ``tasks``; None stands for no task."""
    column = _I.task_state
    if len(tasks) == len(ANY_TASK):
        return sa.true()
    present = [task.value for task in tasks if task is not None]
    either = [column.in_(present)] if present else []
    if None in tasks:
        either.append(column.is_(None))
    return sa.or_(*either) if either else sa.false()


def stored_value(value: Any) -> Any:
    """Return the column value of a field, with enums converted."""
    if isinstance(value, VmState | TaskState):
        return value.value
    return int(value) if isinstance(value, PowerState) else value
