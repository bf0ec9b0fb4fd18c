# SPDX-License-Identifier: Apache-2.0
"""A server that is another one by the time at which an action of it is stored than when it was looked at."""

import pytest

from kilonova.errors import ConcurrentUpdate
from kilonova.model.instance import VmState
from support.cell import Cell, NewCell, host


@pytest.mark.parametrize("kind", ["resize", "migrate", "live_migrate", "rebuild", "evacuate"])
def test_whether_its_guest_runs_is_what_it_is_by_then(cell_of: NewCell, kind: str) -> None:
    cell = cell_of(host("node1"), host("node2"))
    (uuid,) = cell.boot(force_host="node1")
    cell.bus.run()
    before, after = ("pause", "unpause") if kind == "live_migrate" else ("stop", "start")
    cell.power(uuid, before)
    cell.bus.run()
    seen = cell.instance(uuid)
    cell.power(uuid, after)
    cell.bus.run()
    late = Cell(**vars(cell))
    late.instance = lambda _uuid: seen  # type: ignore[method-assign]
    with pytest.raises(ConcurrentUpdate):
        getattr(late, kind)(uuid)
    cell.bus.run()
    assert cell.check() == {uuid: VmState.ACTIVE}
