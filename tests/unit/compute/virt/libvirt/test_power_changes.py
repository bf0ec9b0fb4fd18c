# SPDX-License-Identifier: Apache-2.0
"""What guests do by themselves is told once; what they were told to do is not."""

from collections.abc import Mapping

import pytest

from kilonova.compute.virt.libvirt.power_changes import PowerChanges
from kilonova.errors import DriverError
from kilonova.model.instance import PowerState

RUNNING, SHUTDOWN, PAUSED, NOSTATE = PowerState.RUNNING, PowerState.SHUTDOWN, PowerState.PAUSED, PowerState.NOSTATE


class Host:
    """Guests that change, and what is told of it."""

    def __init__(self, *, is_new: bool = False, **states: PowerState) -> None:
        self.states = dict(states)
        self.fails = False
        self.changes = PowerChanges(self._look)
        if not is_new:
            assert self.changes.take() == {}  # all are reported when an agent starts

    def _look(self) -> Mapping[str, PowerState]:
        if self.fails:
            raise DriverError("away")
        return dict(self.states)

    def becomes(self, uuid: str, state: PowerState) -> None:
        if state is NOSTATE:
            del self.states[uuid]
        else:
            self.states[uuid] = state
        self.changes.touch(uuid)


def test_a_guest_that_goes_off_is_told_once() -> None:
    host = Host(a=RUNNING, b=RUNNING)
    host.becomes("a", SHUTDOWN)
    host.changes.touch("a")
    assert host.changes.take() == {"a": SHUTDOWN}
    assert host.changes.take() == {}


def test_a_guest_that_is_gone_has_no_state() -> None:
    host = Host(a=RUNNING)
    host.becomes("a", NOSTATE)
    assert host.changes.take() == {"a": NOSTATE}


def test_what_was_ordered_is_not_told_neither_meanwhile_nor_afterwards() -> None:
    host = Host(a=RUNNING)
    with host.changes.ordered("a", SHUTDOWN):
        host.becomes("a", SHUTDOWN)
        assert host.changes.take() == {}
    assert host.changes.take() == {}
    with host.changes.ordered("b", RUNNING):
        host.becomes("b", RUNNING)
    assert host.changes.take() == {}
    with host.changes.ordered("b", NOSTATE):
        host.becomes("b", NOSTATE)
    assert host.changes.take() == {}


def test_a_guest_that_dies_as_soon_as_it_was_started_is_told() -> None:
    host = Host(a=SHUTDOWN)
    with host.changes.ordered("a", RUNNING):
        host.becomes("a", RUNNING)
        host.becomes("a", SHUTDOWN)  # before the order is over, whose answer says that it runs
    assert host.changes.take() == {"a": SHUTDOWN}


def test_what_comes_of_an_order_that_failed_is_told() -> None:
    host = Host(a=RUNNING)
    with pytest.raises(DriverError), host.changes.ordered("a", RUNNING):
        host.becomes("a", SHUTDOWN)
        raise DriverError("no")
    assert host.changes.take() == {"a": SHUTDOWN}


def test_events_that_were_missed_are_made_up_for() -> None:
    host = Host(a=RUNNING, b=RUNNING, c=RUNNING)
    host.states = {"a": SHUTDOWN, "b": RUNNING, "d": PAUSED}
    assert host.changes.take() == {}
    host.changes.touch_all()
    assert host.changes.take() == {"a": SHUTDOWN, "c": NOSTATE, "d": PAUSED}


def test_nothing_is_lost_while_the_hypervisor_is_away() -> None:
    host = Host(a=RUNNING)
    host.becomes("a", SHUTDOWN)
    host.fails = True
    with pytest.raises(DriverError):
        host.changes.take()
    host.fails = False
    assert host.changes.take() == {"a": SHUTDOWN}


def test_a_guest_that_dies_before_anybody_has_looked_is_told() -> None:
    host = Host(is_new=True, old=SHUTDOWN)
    with host.changes.ordered("a", RUNNING):
        host.becomes("a", RUNNING)
    host.becomes("a", SHUTDOWN)
    with host.changes.ordered("b", RUNNING):
        host.becomes("b", RUNNING)
    host.becomes("b", NOSTATE)
    with host.changes.ordered("c", NOSTATE):
        host.becomes("c", RUNNING)
        host.becomes("c", NOSTATE)
    assert host.changes.take() == {"a": SHUTDOWN, "b": NOSTATE}
    assert host.changes.take() == {}


def test_a_guest_that_is_started_while_somebody_looks_for_the_first_time_is_not_told() -> None:
    host = Host(is_new=True)
    with host.changes.ordered("a", RUNNING):
        host.becomes("a", RUNNING)
        assert host.changes.take() == {}
    assert host.changes.take() == {}
    host.becomes("a", SHUTDOWN)
    assert host.changes.take() == {"a": SHUTDOWN}
