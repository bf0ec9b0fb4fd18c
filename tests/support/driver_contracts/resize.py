# SPDX-License-Identifier: Apache-2.0
"""Contract of drivers that resize guests on the same host."""

from dataclasses import replace

import pytest

from kilonova.errors import DriverError, UnsupportedGuest
from kilonova.identifiers import new_uuid
from kilonova.model.ability import Ability
from kilonova.model.instance import GuestSpec, PowerState
from support.driver_contracts.absent import refuses_absent
from support.driver_places import GuestTimeout, Place, later

RUNNING, SHUTDOWN = PowerState.RUNNING, PowerState.SHUTDOWN


class ResizeContract:
    ability = Ability.RESIZE_SAME_HOST

    @pytest.mark.parametrize("dies", [False, True])
    def test_a_move_to_another_size_is_confirmed(self, place: Place, *, dies: bool) -> None:
        guest = place.made()
        bigger = replace(guest, memory_mib=64, root_gib=2, ordered_at=later(guest))
        self._move(place, guest, bigger, dies=dies)
        for _ in range(2):
            place.driver.confirm_move(guest.uuid)
            assert place.driver.list_guests() == {guest.uuid: RUNNING}
        assert place.driver.marked_guests() == {guest.uuid: bigger.ordered_at}
        place.driver.abandon_move(guest.uuid)  # without effect, because the move is confirmed
        self._move(place, bigger, replace(bigger, memory_mib=48, ordered_at=later(bigger)), dies=dies)

    @pytest.mark.parametrize("power_on", [True, False])
    def test_a_move_to_another_size_is_reverted(self, place: Place, *, power_on: bool) -> None:
        guest = place.made()
        self._move(place, guest, replace(guest, memory_mib=64, ordered_at=later(guest)))
        with pytest.raises(DriverError):
            place.driver.return_home(guest, power_on=True)
        for _ in range(2):
            place.driver.abandon_move(guest.uuid)
            assert place.state(guest) is SHUTDOWN  # the original guest is kept, but off
        for _ in range(2):
            state = place.driver.return_home(guest, power_on=power_on)
            assert state is place.state(guest) is (RUNNING if power_on else SHUTDOWN)
        assert place.driver.marked_guests() == {guest.uuid: guest.ordered_at}

    def test_a_move_that_the_host_cannot_finish_is_reverted(self, place: Place) -> None:
        guest = place.made()
        place.driver.move_away(guest.uuid, place.host, GuestTimeout())
        with pytest.raises(UnsupportedGuest):
            place.driver.finish_move(
                replace(guest, image_properties={"hw_vif_model": "netfront"}), place.host, power_on=True
            )
        assert place.driver.list_guests() == {guest.uuid: SHUTDOWN}
        assert place.driver.return_home(guest, power_on=True) is RUNNING

    def test_what_never_left_comes_home(self, place: Place) -> None:
        guest = place.made()
        assert place.driver.return_home(guest, power_on=True) is RUNNING
        assert place.state(guest) is RUNNING

    def test_a_kept_guest_is_removed_with_its_server(self, place: Place) -> None:
        guest = place.made()
        self._move(place, guest, replace(guest, memory_mib=64))
        place.driver.destroy(guest.uuid)
        assert (place.driver.list_guests(), place.left_behind(guest.uuid)) == ({}, [])

    def _move(self, place: Place, guest: GuestSpec, anew: GuestSpec, *, dies: bool = False) -> None:
        for _ in range(2):
            place.driver.move_away(guest.uuid, place.host, GuestTimeout())
            assert place.driver.list_guests() == {guest.uuid: SHUTDOWN}
            if dies:
                place.agent_dies()
        for _ in range(2):
            place.driver.finish_move(anew, place.host, power_on=True)
            assert place.driver.list_guests() == {guest.uuid: RUNNING}
            if dies:
                place.agent_dies()
        place.driver.move_away(guest.uuid, place.host, GuestTimeout())  # a late duplicate of the order has no effect
        assert place.driver.list_guests() == {guest.uuid: RUNNING}

    def test_one_that_is_not_there_is_not_moved(self, place: Place) -> None:
        refuses_absent(place, lambda uuid: place.driver.move_away(uuid, ""))
        place.driver.confirm_move(new_uuid())
        place.driver.abandon_move(new_uuid())
