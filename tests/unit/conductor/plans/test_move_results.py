# SPDX-License-Identifier: Apache-2.0
"""A status of a migration either ends its move or leaves it under way."""

from kilonova.conductor.plans.move_results import ENDED, reason_of
from kilonova.model.saved_plan import MoveState
from kilonova.model.server_migration import OPEN, MigrationStatus


def test_each_status_ends_a_move_or_is_of_an_open_migration() -> None:
    assert set(MigrationStatus) == OPEN | ENDED.keys()
    assert not OPEN & ENDED.keys()
    assert set(ENDED.values()) == {MoveState.DONE, MoveState.FAILED}


def test_a_failed_move_has_a_reason() -> None:
    assert reason_of(MigrationStatus.ERROR, "no room") == "no room"
    assert "reverted" in reason_of(MigrationStatus.REVERTED, "old fault")
    assert "cancelled" in reason_of(MigrationStatus.CANCELLED, None)
    assert reason_of(None, None)
