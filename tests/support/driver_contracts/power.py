# SPDX-License-Identifier: Apache-2.0
"""Contract of drivers that reboot, pause or suspend guests."""

import pytest

from kilonova.errors import DriverError, GuestMissing
from kilonova.model.ability import Ability
from kilonova.model.instance import PowerState
from support.driver_contracts.absent import refuses_absent
from support.driver_places import GuestTimeout, Place

RUNNING, PAUSED, SHUTDOWN, SUSPENDED = (
    PowerState.RUNNING,
    PowerState.PAUSED,
    PowerState.SHUTDOWN,
    PowerState.SUSPENDED,
)


class RebootContract:
    ability = Ability.REBOOT

    @pytest.mark.parametrize("stubborn", [False, True])
    def test_a_soft_reboot(self, place: Place, *, stubborn: bool) -> None:
        guest = place.made(place.stubborn if stubborn else place.image)
        place.driver.soft_reboot(guest.uuid, GuestTimeout(looks=3 if stubborn else 600))
        assert place.state(guest) is RUNNING

    @pytest.mark.parametrize("is_off", [False, True])
    def test_a_hard_reboot(self, place: Place, *, is_off: bool) -> None:
        guest = place.made()
        if is_off:
            place.driver.stop(guest.uuid)
        place.driver.hard_reboot(guest.uuid, None)
        assert place.state(guest) is RUNNING

    def test_a_hard_reboot_makes_a_guest_anew_that_is_gone(self, place: Place) -> None:
        guest = place.made()
        place.vanishes(guest.uuid)
        assert place.state(guest) is None
        with pytest.raises(GuestMissing):
            place.driver.hard_reboot(guest.uuid, None)
        place.driver.hard_reboot(guest.uuid, guest)
        assert place.state(guest) is RUNNING

    def test_one_that_is_not_there_is_not_rebooted(self, place: Place) -> None:
        driver = place.driver
        refuses_absent(
            place,
            lambda uuid: driver.soft_reboot(uuid, GuestTimeout()),
            lambda uuid: driver.hard_reboot(uuid, None),
        )


class PauseContract:
    ability = Ability.PAUSE

    def test_a_pause_there_and_back(self, place: Place) -> None:
        _there_and_back(place, "pause", PAUSED, "unpause")

    def test_a_paused_guest_is_stopped(self, place: Place) -> None:
        _stopped(place, "pause")

    @pytest.mark.parametrize("call", ["pause", "unpause"])
    def test_one_that_is_off_is_not_paused(self, place: Place, call: str) -> None:
        _refused_when_off(place, call)

    def test_one_that_is_not_there_is_not_paused(self, place: Place) -> None:
        refuses_absent(place, place.driver.pause, place.driver.unpause)


class SuspendContract:
    ability = Ability.SUSPEND

    def test_suspended_and_resumed(self, place: Place) -> None:
        _there_and_back(place, "suspend", SUSPENDED, "resume")

    def test_a_suspended_guest_is_stopped(self, place: Place) -> None:
        _stopped(place, "suspend")

    @pytest.mark.parametrize("call", ["suspend", "resume"])
    def test_one_that_is_off_is_not_suspended(self, place: Place, call: str) -> None:
        _refused_when_off(place, call)

    def test_one_that_is_not_there_is_not_suspended(self, place: Place) -> None:
        refuses_absent(place, place.driver.suspend, place.driver.resume)


def _there_and_back(place: Place, there: str, state: PowerState, back: str) -> None:
    guest = place.made()
    for call, expected in ((there, state), (back, RUNNING)):
        for _ in range(2):
            getattr(place.driver, call)(guest.uuid)
            assert place.state(guest) is expected


def _stopped(place: Place, before: str) -> None:
    guest = place.made()
    getattr(place.driver, before)(guest.uuid)
    place.driver.stop(guest.uuid, GuestTimeout())
    assert place.state(guest) is SHUTDOWN
    place.driver.start(guest.uuid)
    assert place.state(guest) is RUNNING


def _refused_when_off(place: Place, call: str) -> None:
    guest = place.made()
    place.driver.stop(guest.uuid)
    with pytest.raises(DriverError):
        getattr(place.driver, call)(guest.uuid)
    assert place.state(guest) is SHUTDOWN
