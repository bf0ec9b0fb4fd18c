# SPDX-License-Identifier: Apache-2.0
"""Servers as rows of a database, without hosts and agents."""

from typing import Any

from kilonova.db import instances
from kilonova.db.database import Database
from kilonova.identifiers import new_uuid
from kilonova.model.flavor import Flavor
from kilonova.model.instance import Instance, VmState

#: Columns that the insert of a server leaves empty.
_LATER = ("host", "node", "power_state", "shelved_image", "launched_at", "terminated_at")
FLAVOR = Flavor("1", "m1.tiny", vcpus=1, memory_mib=512, root_gib=1)


def store_server(database: Database, vm_state: VmState = VmState.ACTIVE, **facts: Any) -> Instance:
    """Store a server and return it as it is read again. Facts that a new row lacks are stored by a second write."""
    changed = {name: facts.pop(name) for name in _LATER if name in facts}
    names = {"name": "vm", "project_id": "p", "user_id": "u"}
    made = Instance(id=0, uuid=new_uuid(), vm_state=vm_state, flavor=FLAVOR, **{**names, **facts})
    database.write(lambda tx: instances.insert(tx, [(made, None)]))
    if changed:
        database.write(lambda tx: instances.change(tx, made.uuid, **changed))
    return read_server(database, made.uuid)


def read_server(database: Database, uuid: str) -> Instance:
    with database.read() as connection:
        return instances.get(connection, uuid)
