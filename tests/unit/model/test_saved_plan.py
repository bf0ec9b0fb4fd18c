# SPDX-License-Identifier: Apache-2.0
from kilonova.model.saved_plan import PlanState


def test_a_plan_is_ready_active_or_final() -> None:
    neither = [state for state in PlanState if not state.is_active and not state.is_final]
    assert neither == [PlanState.READY]
    assert not [state for state in PlanState if state.is_active and state.is_final]
