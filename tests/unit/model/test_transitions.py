# SPDX-License-Identifier: Apache-2.0
"""The table of transitions against what clients of Nova know, and against itself."""

import pytest

from kilonova.conductor.workflows.batch import BATCH
from kilonova.conductor.workflows.cache_images import CACHE_IMAGES
from kilonova.conductor.workflows.registry import REGISTRY
from kilonova.model.instance import TaskState, VmState
from kilonova.model.transitions import ANY_TASK, TRANSITIONS

S, T = VmState, TaskState


@pytest.mark.parametrize(
    ("kind", "states", "settled", "failed"),
    [
        ("start", {S.STOPPED}, S.ACTIVE, None),
        ("stop", {S.ACTIVE, S.ERROR}, S.STOPPED, None),
        ("reboot", {S.ACTIVE}, S.ACTIVE, S.ERROR),
        ("hard-reboot", {S.ACTIVE, S.STOPPED, S.PAUSED, S.SUSPENDED, S.ERROR}, S.ACTIVE, S.ERROR),
        ("pause", {S.ACTIVE}, S.PAUSED, None),
        ("resume", {S.SUSPENDED}, S.ACTIVE, S.ERROR),
        ("rescue", {S.ACTIVE, S.STOPPED, S.ERROR}, S.RESCUED, S.ERROR),
        ("rebuild", {S.ACTIVE, S.STOPPED, S.ERROR}, S.ACTIVE, S.ERROR),
        ("resize", {S.ACTIVE, S.STOPPED}, S.RESIZED, S.ERROR),
        ("confirm-resize", {S.RESIZED}, S.ACTIVE, S.ERROR),
        ("live-migrate", {S.ACTIVE, S.PAUSED}, None, None),
        ("shelve", {S.ACTIVE, S.STOPPED, S.PAUSED, S.SUSPENDED}, S.SHELVED, None),
        ("unshelve", {S.SHELVED, S.SHELVED_OFFLOADED}, S.ACTIVE, None),
        ("restore", {S.SOFT_DELETED}, S.ACTIVE, None),
        ("create-image", {S.ACTIVE, S.STOPPED, S.PAUSED, S.SUSPENDED}, None, None),
        ("change-password", {S.ACTIVE}, None, None),
    ],
)
def test_an_action_starts_and_ends_where_clients_expect(
    kind: str, states: set[VmState], settled: VmState | None, failed: VmState | None
) -> None:
    transition = TRANSITIONS[kind]
    assert (transition.states, transition.settled, transition.failed) == (states, settled, failed)


def test_a_hard_reboot_ends_what_hangs_but_no_other_hard_reboot_at_work() -> None:
    allowed = TRANSITIONS["hard-reboot"].tasks
    assert {None, T.REBOOTING, T.REBOOT_PENDING, T.REBOOT_STARTED, T.REBOOTING_HARD, T.PAUSING} <= allowed
    assert not allowed & {T.REBOOT_PENDING_HARD, T.REBOOT_STARTED_HARD, T.SPAWNING, T.DELETING}


@pytest.mark.parametrize("kind", ["delete", "soft-delete", "force-delete"])
def test_what_ends_everything_else_waits_for_no_task(kind: str) -> None:
    assert TRANSITIONS[kind].tasks == ANY_TASK


def test_an_evacuation_ends_everything_but_a_delete() -> None:
    assert TRANSITIONS["evacuate"].tasks == ANY_TASK - {T.DELETING, T.SOFT_DELETING}


def test_no_two_actions_show_the_same_first_task_in_the_same_state() -> None:
    seen: dict[tuple[VmState, TaskState], str] = {}
    same = [{"delete", "force-delete"}, {"rebuild", "evacuate"}, {"resize", "migrate"}]
    for kind, transition in TRANSITIONS.items():
        for state in transition.states if transition.shown else ():
            other = seen.setdefault((state, transition.shown[0]), kind)
            assert other == kind or {other, kind} in same, (state, other, kind)


def test_every_workflow_of_one_server_has_a_transition() -> None:
    assert set(REGISTRY) - {BATCH.kind, CACHE_IMAGES.kind} <= set(TRANSITIONS)
