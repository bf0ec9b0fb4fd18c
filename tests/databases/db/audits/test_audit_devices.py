# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import sqlalchemy as sa

from kilonova.db.audits import audit
from kilonova.db.change_log import device_json
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.identifiers import new_uuid
from kilonova.mirror.mirror import Mirror
from support.cell import Cell
from support.device_cells import PINNED, SHARE, devices_of, machine
from support.mirrors import assert_equal


def test_stray_shares_and_wrong_counts_of_devices_are_found_and_mended(start_machines: Callable[..., Cell]) -> None:
    cell = start_machines(machine("a"))
    cell.boot(flavor=PINNED)
    cell.bus.run()
    right = devices_of(cell)

    def break_(tx: Transaction) -> None:
        tx.execute(sa.update(t.pci_pools).values(used=2))
        stray = {"instance_uuid": new_uuid(), "node_uuid": cell.mirror.snapshot().uuids[0]}
        tx.execute(sa.insert(t.device_shares), {**stray, "body": device_json.share_as_json(SHARE)})

    cell.database.write(break_)
    with cell.database.read() as connection:
        found = audit.find_all(connection)
    assert [finding.kind for finding in found] == ["devices", "devices"]
    for finding in found:
        cell.database.write(finding.repair)
    assert devices_of(cell) == right
    assert_equal(cell.mirror, Mirror.follow(cell.database))
    with cell.database.read() as connection:
        assert audit.find_all(connection) == ()
