# SPDX-License-Identifier: Apache-2.0
"""Rebuilds of a server that was resized after its new image was checked."""

import pytest

from kilonova.db import request_specs
from kilonova.errors import ConcurrentUpdate
from kilonova.model.instance import VmState
from support.cell import IMAGE, NewCell, asker, host


def test_it_is_not_rebuilt_from_an_image_that_was_found_to_suit_another_flavor(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"), host("node2"))
    (uuid,) = cell.boot()
    cell.work_off()
    seen = cell.instance(uuid)
    with cell.database.read() as connection:
        request = request_specs.get_many(connection, [seen])[uuid]
    cell.resize(uuid)
    cell.work_off()
    cell.confirm(uuid)
    cell.work_off()
    with pytest.raises(ConcurrentUpdate):
        cell.conductor.operations.rebuilds.rebuild(
            uuid, seen.flavor, request, IMAGE, asker("req-late"), user_data=None, values={}
        )
    assert cell.check() == {uuid: VmState.ACTIVE}
