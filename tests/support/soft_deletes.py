# SPDX-License-Identifier: Apache-2.0
"""Soft deletes in a cell, and what is read of the server afterwards."""

from kilonova.db import quotas
from kilonova.errors import DriverError
from kilonova.model.instance import Instance, PowerState, TaskState, VmState
from kilonova.model.quota import Usage
from support.cell import Cell


def fail(_uuid: str, **_: object) -> None:
    raise DriverError("The guest does not obey.")


def used(cell: Cell) -> Usage:
    with cell.database.read() as connection:
        return quotas.usage_of(connection, "wonder")


def states(instance: Instance) -> tuple[VmState, TaskState | None, PowerState]:
    return instance.vm_state, instance.task_state, instance.power_state


def soft_delete(cell: Cell, uuid: str) -> None:
    cell.delete(uuid, soft=True)
    cell.work_off()
