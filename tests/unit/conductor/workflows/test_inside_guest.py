# SPDX-License-Identifier: Apache-2.0
"""Password changes inside a guest: who can read the password, and for how long."""

from typing import Any

import pytest

from kilonova.db import workflows
from support.cell import PASSWORD, Cell, Running


@pytest.mark.parametrize("act", [Cell.rescue, Cell.change_password])
def test_a_password_leaves_the_journal_with_the_step_that_used_it(running: Running, act: Any) -> None:
    cell, uuid = running
    act(cell, uuid)
    stored = []
    while cell.bus.step():
        with cell.database.read() as connection:
            stored.append([PASSWORD in str(row.facts) for row in workflows.of_instance(connection, uuid)])
    assert stored[-1] == []
    assert not any(map(any, stored[stored.index([]) :]))


def test_a_password_is_not_what_an_operator_reads_of_a_workflow(running: Running) -> None:
    cell, uuid = running
    cell.change_password(uuid)
    with cell.database.read() as connection:
        (row,) = workflows.of_instance(connection, uuid)
    assert PASSWORD not in repr(cell.conductor.runner.registry[row.kind].run(row).facts)
    cell.bus.run()
