# SPDX-License-Identifier: Apache-2.0
"""Live migrations between simulated hosts: guests that run, that are paused, and that return."""

from pathlib import Path

import pytest

from kilonova.messaging.messages import (
    AbandonMove,
    ActivateMigrated,
    ConfirmMove,
    FinishMove,
    LiveMigrate,
    PrepareLiveMigration,
    ReturnHome,
    StartGuest,
    StopGuest,
)
from kilonova.model.instance import PowerState
from support.one_host import OneHost, guest, host_with_guest, new_step

RUNNING, PAUSED, SHUTDOWN = PowerState.RUNNING, PowerState.PAUSED, PowerState.SHUTDOWN


def migrate(workflow: str = "w") -> LiveMigrate:
    return LiveMigrate(new_step(workflow), "a", "node2")


def test_a_guest_moves_while_it_runs(tmp_path: Path) -> None:
    one, two = host_with_guest(tmp_path), OneHost(tmp_path, "node2")
    assert two.do(PrepareLiveMigration(new_step(), guest(), "node1")).power_state is PAUSED
    assert one.do(migrate()).power_state is RUNNING
    assert one.driver.list_guests() == {"a": SHUTDOWN}
    assert two.do(ActivateMigrated(new_step(), "a")).power_state is RUNNING
    assert one.do(ConfirmMove(new_step(), "a")).error is None
    assert (one.driver.list_guests(), two.driver.list_guests()) == ({}, {"a": RUNNING})


def test_every_step_may_come_again_from_another_attempt_and_to_another_process(tmp_path: Path) -> None:
    host_with_guest(tmp_path)
    for _ in range(2):
        assert OneHost(tmp_path, "node2").do(PrepareLiveMigration(new_step(), guest(), "node1")).power_state is PAUSED
    for _ in range(2):
        assert OneHost(tmp_path).do(migrate()).power_state is RUNNING
    for _ in range(2):
        assert OneHost(tmp_path, "node2").do(ActivateMigrated(new_step(), "a")).power_state is RUNNING
    for _ in range(2):
        assert OneHost(tmp_path).do(ConfirmMove(new_step(), "a")).error is None
    assert OneHost(tmp_path).driver.list_guests() == {}
    assert OneHost(tmp_path, "node2").driver.list_guests() == {"a": RUNNING}


def test_a_paused_guest_arrives_paused_and_may_return_paused(tmp_path: Path) -> None:
    one, two = host_with_guest(tmp_path), OneHost(tmp_path, "node2")
    one.driver.hypervisor.set_state("a", PAUSED)
    two.do(PrepareLiveMigration(new_step(), guest(), "node1"))
    assert one.do(migrate()).power_state is PAUSED
    assert one.do(ReturnHome(new_step(), guest(), power_on=True)).power_state is PAUSED
    assert one.do(migrate()).power_state is PAUSED
    assert two.do(ActivateMigrated(new_step(), "a", paused=True)).power_state is PAUSED
    assert two.driver.list_guests() == {"a": PAUSED}


def test_what_came_to_nothing_leaves_the_guest_at_home(tmp_path: Path) -> None:
    one, two = host_with_guest(tmp_path, failing_live_migrations=1), OneHost(tmp_path, "node2")
    two.do(PrepareLiveMigration(new_step(), guest(), "node1"))
    failed = one.do(migrate())
    assert (failed.error, failed.aborted) == ("Simulated failure to copy the guest.", False)
    for _ in range(2):
        assert one.do(ReturnHome(new_step(), guest(), power_on=True)).power_state is RUNNING
        assert two.do(AbandonMove(new_step(), "a")).error is None
    assert (one.driver.list_guests(), two.driver.list_guests()) == ({"a": RUNNING}, {})
    assert one.do(migrate()).error is None


def test_an_incoming_guest_is_nobodys_to_start(tmp_path: Path) -> None:
    two = OneHost(tmp_path, "node2")
    two.do(PrepareLiveMigration(new_step(), guest(), "node1"))
    for message in (StartGuest(new_step(), "a"), StopGuest(new_step(), "a")):
        assert two.do(message).error == "Guest a is still being migrated to this host."
    assert two.do(FinishMove(new_step(), guest(), "node1", power_on=True)).error is not None
    assert two.driver.list_guests() == {"a": PAUSED}


@pytest.mark.parametrize(
    ("stopped", "error"),
    [(True, "Guest a does not run."), (False, "Guest a already exists and is not being migrated")],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, stopped: bool, error: str) -> None:
    one = host_with_guest(tmp_path)
    if stopped:
        one.do(StopGuest(new_step(), "a"))
        reply = one.do(migrate())
    else:
        reply = one.do(PrepareLiveMigration(new_step(), guest(), "node2"))
    assert (reply.error or "").startswith(error)
    assert one.driver.list_guests() == {"a": SHUTDOWN if stopped else RUNNING}
