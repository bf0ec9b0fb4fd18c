# SPDX-License-Identifier: Apache-2.0
"""Claims that wait for a scheduler driver run on threads of their own."""

from typing import Any

import pytest

from kilonova.claims.outside_driver import OutsideDriver
from kilonova.model.instance import VmState
from kilonova.scheduler.driver import Scheduler
from kilonova.scheduler.engine.engine import Engine
from support.cell import NewCell, host


class _First(Scheduler):
    """Sends all servers of a request to the first of two hosts that it may have."""

    def select_destinations(self, _context: Any, request_spec: Any, filter_properties: Any) -> Any:
        name = next(name for name in ("one", "two") if name not in (filter_properties["ignore_hosts"] or ()))
        return [{"host": name, "nodename": None, "limits": None}] * request_spec["num_instances"]


@pytest.mark.parametrize("outside", [True, False], ids=["driver", "own"])
def test_claims_that_wait_for_a_driver_are_made_on_threads_of_their_own(cell_of: NewCell, *, outside: bool) -> None:
    cell = cell_of(host("one"), host("two"), driver=OutsideDriver(_First(), Engine()) if outside else None)
    together = cell.boot(2)
    cell.bus.run()
    assert cell.check() == dict.fromkeys(together, "active")
    assert cell.bus.aside == (1 if outside else 0)  # one claim for both
    cell.migrate(together[0])
    cell.bus.run()
    assert cell.instance(together[0]).vm_state is VmState.RESIZED
    assert cell.bus.aside == (2 if outside else 0)
