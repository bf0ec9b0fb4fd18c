# SPDX-License-Identifier: Apache-2.0
"""An agent has a guest go only if it is the one that the record speaks of; of deleted servers it does as configured."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from kilonova.compute.removals import RunningDeleted, RunningDeletedAction
from kilonova.errors import DriverError
from kilonova.messaging.messages import (
    AskGuests,
    GuestsFound,
    MoveAway,
    Order,
    PendingRollback,
    RebootGuest,
    RemoveGuest,
    ReturnHome,
    SpawnGuest,
    StepId,
)
from kilonova.model.found_guest import Removal, RemovalReason
from kilonova.model.instance import PowerState
from support.one_host import OneHost, guest, new_step

NOON = datetime.fromisoformat("2026-05-01T12:00")
NO_WORKFLOW = StepId("", "guests", 0)
SECOND = timedelta(seconds=1)


def with_guest(tmp_path: Path, running_deleted: RunningDeleted | None = None, **facts: object) -> OneHost:
    host = OneHost(tmp_path, running_deleted=running_deleted, **facts)
    host.do(SpawnGuest(new_step(), guest(ordered_at=NOON)))
    return host


def remove(host: OneHost, departure: RemovalReason, at: datetime = NOON, age_s: float = 0.0) -> PowerState:
    return host.do(RemoveGuest(NO_WORKFLOW, Removal("a", departure, at, age_s))).power_state


@pytest.mark.parametrize("departure", RemovalReason)
def test_a_record_of_before_the_guest_does_not_speak_of_it(tmp_path: Path, departure: RemovalReason) -> None:
    host = with_guest(tmp_path)
    assert remove(host, departure, NOON - SECOND) is PowerState.RUNNING
    assert remove(host, departure, NOON) is PowerState.NOSTATE
    assert remove(host, departure, NOON) is PowerState.NOSTATE
    assert host.driver.list_guests() == {}


@pytest.mark.parametrize(
    ("action", "state"),
    [
        ("noop", PowerState.RUNNING),
        ("log", PowerState.RUNNING),
        ("shutdown", PowerState.SHUTDOWN),
        ("reap", PowerState.NOSTATE),
    ],
)
def test_what_becomes_of_a_deleted_server(
    tmp_path: Path, action: str, state: PowerState, caplog: pytest.LogCaptureFixture
) -> None:
    host = with_guest(tmp_path, RunningDeleted(RunningDeletedAction(action), 30))
    assert remove(host, RemovalReason.DELETED, age_s=29.9) is PowerState.RUNNING
    assert caplog.messages == []
    for _ in range(2):
        assert remove(host, RemovalReason.DELETED, age_s=30) is state
    assert bool(caplog.messages) == (action != "noop")
    assert remove(host, RemovalReason.LEFT) is PowerState.NOSTATE, "that is no matter of deleted ones"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (DriverError("The disk is in use."), "guest a could not be removed: The disk is in use."),
        (OSError(28, "No space left on device"), "guest a could not be removed"),
    ],
)
def test_a_guest_that_cannot_be_removed_keeps_no_agent_from_starting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, error: Exception, said: str
) -> None:
    host = with_guest(tmp_path)

    def fail(_uuid: str) -> None:
        raise error

    host.driver.destroy = fail  # type: ignore[method-assign]
    host.agent.remove([Removal("a", RemovalReason.LEFT, NOON), Removal("b", RemovalReason.LEFT, NOON)])
    assert said in caplog.text


def test_an_agent_tells_which_of_some_guests_it_has(tmp_path: Path) -> None:
    host = with_guest(tmp_path)
    host.do(SpawnGuest(new_step(), guest("b", ordered_at=NOON)))
    host.send(AskGuests(NO_WORKFLOW, ("a", "c")))
    host.bus.run()
    answer = GuestsFound({"node1": {"a": PowerState.RUNNING}}, {"node1": {"a": NOON}}, ("a", "c"))
    assert host.told_of(GuestsFound) == [answer]


def keep(host: OneHost, at: datetime) -> PowerState:
    """Carry out the removal of a guest whose server is being evacuated. ``at``: time of the record."""
    return host.do(RemoveGuest(NO_WORKFLOW, Removal("a", RemovalReason.LEFT, at, keeps=True))).power_state


@pytest.mark.parametrize("how", ["order", "hard reboot", "pending rollback"])
def test_a_guest_that_was_restored_is_not_powered_off_by_an_earlier_record(tmp_path: Path, how: str) -> None:
    host = with_guest(tmp_path)
    assert keep(host, NOON + SECOND) is PowerState.SHUTDOWN
    again = guest(ordered_at=NOON + 2 * SECOND)
    orders: dict[str, Order] = {
        "order": ReturnHome(new_step(), again, power_on=True),
        "hard reboot": RebootGuest(new_step(), "a", hard=True, guest=again),
    }
    if how in orders:
        assert host.do(orders[how]).error is None
    else:
        (reply,) = host.agent.roll_back([PendingRollback(new_step(), again, power_on=True)])
        assert reply.error is None
    assert keep(host, NOON + SECOND) is PowerState.RUNNING
    assert keep(host, NOON + 3 * SECOND) is PowerState.SHUTDOWN, "the server is evacuated once more"


def test_a_guest_that_was_only_moved_away_is_kept(tmp_path: Path) -> None:
    host = with_guest(tmp_path)
    host.do(MoveAway(new_step(), "a", ""))
    assert keep(host, NOON + SECOND) is PowerState.SHUTDOWN
