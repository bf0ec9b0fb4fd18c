# SPDX-License-Identifier: Apache-2.0
"""What every hypervisor driver does when a guest gives its place to another one: rescues, rebuilds, other sizes."""

from dataclasses import replace

import pytest

from kilonova.compute.virt.abilities import Rescue
from kilonova.errors import DriverError, ImageUnusable, UnsupportedGuest
from kilonova.model.config_drive import ConfigDrive
from kilonova.model.instance import GuestSpec, PowerState
from support.driver_places import Ages, Place, later

RUNNING, SHUTDOWN = PowerState.RUNNING, PowerState.SHUTDOWN


class ReplacementContract:
    """A part of ``DriverContract``."""

    # --- rescue and rebuild -------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("back", ["unrescue", "hard_reboot", "stop and start"])
    def test_rescue_there_and_back(self, place: Place, back: str) -> None:
        guest = place.made()
        for _ in range(2):
            place.driver.rescue(guest, Rescue(place.stubborn.image_id, place.stubborn), Ages())
            assert place.state(guest) is RUNNING
        place.agent_dies()
        match back:
            case "unrescue":
                for _ in range(2):
                    place.driver.unrescue(guest.uuid)
            case "hard_reboot":
                place.driver.hard_reboot(guest.uuid, None)
            case _:
                place.driver.stop(guest.uuid)
                place.driver.start(guest.uuid)
        assert place.state(guest) is RUNNING
        assert place.driver.marked_guests() == {guest.uuid: guest.ordered_at}

    @pytest.mark.parametrize("own", [None, ConfigDrive("web")])
    @pytest.mark.parametrize("back", ["unrescue", "hard_reboot", "stop and start", "destroy"])
    def test_the_password_of_a_rescue_is_gone_with_it(self, place: Place, back: str, own: ConfigDrive | None) -> None:
        guest = place.made(config_drive=own)
        rescued = replace(guest, config_drive=ConfigDrive("web", admin_pass="heliotrope"))
        for _ in range(2):
            place.driver.rescue(rescued, Rescue(place.stubborn.image_id, place.stubborn), Ages())
            assert len(place.files_with(b"heliotrope")) == 1
        place.agent_dies()
        assert len(place.files_with(b"heliotrope")) == 1
        match back:
            case "hard_reboot":
                place.driver.hard_reboot(guest.uuid, None)
            case "stop and start":
                place.driver.stop(guest.uuid)
                place.driver.start(guest.uuid)
            case _:
                getattr(place.driver, back)(guest.uuid)
        assert place.files_with(b"heliotrope") == []

    def test_a_rescue_that_cannot_be_leaves_it_as_it_was(self, place: Place) -> None:
        guest = place.made()
        rescued = replace(guest, config_drive=ConfigDrive("web", admin_pass="heliotrope"))
        with pytest.raises(ImageUnusable):
            place.driver.rescue(rescued, Rescue(place.damaged.image_id, place.damaged), Ages())
        assert place.state(guest) is RUNNING
        assert place.files_with(b"heliotrope") == []

    @pytest.mark.parametrize("power_on", [True, False])
    def test_a_rebuild_makes_it_anew_once(self, place: Place, *, power_on: bool) -> None:
        guest = place.made()
        anew = replace(guest, image_ref=place.stubborn.image_id, image=place.stubborn, ordered_at=later(guest))
        for _ in range(2):
            place.driver.rebuild(anew, power_on=power_on)
            assert place.state(guest) is (RUNNING if power_on else SHUTDOWN)
        assert place.driver.marked_guests() == {guest.uuid: anew.ordered_at}

    def test_a_rebuild_of_one_that_is_gone(self, place: Place) -> None:
        guest = place.guest()
        place.driver.rebuild(guest, power_on=True)
        assert place.state(guest) is RUNNING

    @pytest.mark.parametrize("why", ["image", "model"])
    def test_a_rebuild_that_cannot_be_leaves_it_as_it_was(self, place: Place, why: str) -> None:
        guest = place.made()
        anew = replace(guest, ordered_at=later(guest))
        if why == "image":
            anew = replace(anew, image_ref=place.damaged.image_id, image=place.damaged)
        else:
            anew = replace(anew, image_properties={"hw_vif_model": "netfront"})
        with pytest.raises((ImageUnusable, UnsupportedGuest)):
            place.driver.rebuild(anew, power_on=True)
        assert place.state(guest) is RUNNING
        assert place.driver.marked_guests() == {guest.uuid: guest.ordered_at}

    # --- another size on the same host --------------------------------------------------------------------------------

    @pytest.mark.parametrize("dies", [False, True])
    def test_a_move_to_another_size_is_confirmed(self, place: Place, *, dies: bool) -> None:
        guest = place.made()
        bigger = replace(guest, memory_mib=64, root_gib=2, ordered_at=later(guest))
        self._move(place, guest, bigger, dies=dies)
        for _ in range(2):
            place.driver.confirm_move(guest.uuid)
            assert place.driver.list_guests() == {guest.uuid: RUNNING}
        assert place.driver.marked_guests() == {guest.uuid: bigger.ordered_at}
        place.driver.abandon_move(guest.uuid)  # which is not what a move made any more
        self._move(place, bigger, replace(bigger, memory_mib=48, ordered_at=later(bigger)), dies=dies)

    @pytest.mark.parametrize("power_on", [True, False])
    def test_a_move_to_another_size_is_reverted(self, place: Place, *, power_on: bool) -> None:
        guest = place.made()
        self._move(place, guest, replace(guest, memory_mib=64, ordered_at=later(guest)))
        with pytest.raises(DriverError):
            place.driver.return_home(guest, power_on=True)
        for _ in range(2):
            place.driver.abandon_move(guest.uuid)
            assert place.state(guest) is SHUTDOWN  # it is only kept
        for _ in range(2):
            state = place.driver.return_home(guest, power_on=power_on)
            assert state is place.state(guest) is (RUNNING if power_on else SHUTDOWN)
        assert place.driver.marked_guests() == {guest.uuid: guest.ordered_at}

    def test_a_move_that_the_host_cannot_finish_is_reverted(self, place: Place) -> None:
        guest = place.made()
        place.driver.move_away(guest.uuid, place.host, Ages())
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
            place.driver.move_away(guest.uuid, place.host, Ages())
            assert place.driver.list_guests() == {guest.uuid: SHUTDOWN}
            if dies:
                place.agent_dies()
        for _ in range(2):
            place.driver.finish_move(anew, place.host, power_on=True)
            assert place.driver.list_guests() == {guest.uuid: RUNNING}
            if dies:
                place.agent_dies()
        place.driver.move_away(guest.uuid, place.host, Ages())  # comes late: it is there already
        assert place.driver.list_guests() == {guest.uuid: RUNNING}
