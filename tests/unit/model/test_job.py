# SPDX-License-Identifier: Apache-2.0
from kilonova.model.job import UNFINISHED, JobState


def test_a_state_is_final_or_unfinished() -> None:
    assert {state for state in JobState if not state.is_final} == set(UNFINISHED)
