# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from kilonova.db import (
    instances,
)
from kilonova.db.database import Database
from kilonova.errors import Conflict
from kilonova.identifiers import new_uuid
from kilonova.model.flavor import Flavor
from kilonova.model.instance import Instance, TaskState, VmState

FLAVOR = Flavor("1", "m1.tiny", vcpus=1, memory_mib=512, root_gib=1, extra_specs={"ssd": "true"})


def server(name: str, **facts: Any) -> Instance:
    return Instance(0, new_uuid(), name, "p", "u", VmState.ACTIVE, FLAVOR, **facts)


def store(database: Database, *servers: Instance) -> list[str]:
    database.write(lambda tx: instances.insert(tx, [(one, None) for one in servers]))
    return [one.uuid for one in servers]


def test_states_are_changed_only_from_the_expected_ones(database: Database) -> None:
    uuid, *_ = store(database, server("one", task_state=TaskState.REBOOTING))
    database.write(lambda tx: instances.change(tx, uuid, expected_tasks={TaskState.REBOOTING}, task_state=None))
    with pytest.raises(Conflict):
        database.write(lambda tx: instances.change(tx, uuid, expected_tasks={TaskState.REBOOTING}, task_state=None))
    database.write(lambda tx: instances.change(tx, uuid, expected_tasks={None}, task_state=None))
