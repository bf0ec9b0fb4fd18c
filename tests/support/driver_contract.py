# SPDX-License-Identifier: Apache-2.0
"""What every hypervisor driver does, tried call by call: done, repeated, of a guest that is not there, failing, slow.

A module that tests a driver has a subclass of :class:`DriverContract` and a fixture ``place``, a :class:`Place` with no
guests. Its guests answer a request to shut down unless they are made of :attr:`Place.stubborn`.
"""

import socket
from collections.abc import Callable
from dataclasses import replace

import pytest

from kilonova.compute.virt.base import AgentStopsError, VirtDriver
from kilonova.errors import (
    DriverError,
    GuestMissing,
    GuestNotRunning,
    ImageUnusable,
    SnapshotCancelled,
    UnsupportedGuest,
)
from kilonova.identifiers import new_uuid
from kilonova.model.console import ConsoleProtocol
from kilonova.model.image_data import CacheResult, ImageData
from kilonova.model.instance import PowerState
from support.driver_places import Ages, Monitor, Place
from support.replacement_contract import ReplacementContract
from support.waiting import wait_until

NOSTATE, RUNNING, PAUSED, SHUTDOWN, SUSPENDED = (
    PowerState.NOSTATE,
    PowerState.RUNNING,
    PowerState.PAUSED,
    PowerState.SHUTDOWN,
    PowerState.SUSPENDED,
)


class DriverContract(ReplacementContract):
    """Subclass it, and give it a fixture ``place``."""

    # --- making and removing ------------------------------------------------------------------------------------------

    def test_a_guest_is_made_once(self, place: Place) -> None:
        guest = place.made()
        place.driver.spawn(guest)
        assert place.driver.list_guests() == {guest.uuid: RUNNING}
        assert place.driver.marked_guests() == {guest.uuid: guest.ordered_at}

    def test_another_agent_finds_it(self, place: Place) -> None:
        guest = place.made()
        place.agent_dies()
        assert place.driver.list_guests() == {guest.uuid: RUNNING}
        assert place.driver.marked_guests() == {guest.uuid: guest.ordered_at}
        place.driver.spawn(guest)
        assert place.state(guest) is RUNNING

    def test_what_the_host_lacks_is_said_and_nothing_is_left(self, place: Place) -> None:
        guest = place.guest(image_properties={"hw_vif_model": "netfront"})
        with pytest.raises(UnsupportedGuest, match="hw_vif_model=netfront"):
            place.driver.spawn(guest)
        assert (place.state(guest), place.left_behind(guest.uuid)) == (None, [])

    def test_a_damaged_image_is_said_and_nothing_is_left(self, place: Place) -> None:
        guest = place.guest(place.damaged)
        with pytest.raises(ImageUnusable):
            place.driver.spawn(guest)
        assert (place.state(guest), place.left_behind(guest.uuid)) == (None, [])

    def test_a_guest_is_removed_with_all_that_it_has(self, place: Place) -> None:
        guest, other = place.made(), place.made()
        for _ in range(2):
            place.driver.destroy(guest.uuid)
        assert place.driver.list_guests() == {other.uuid: RUNNING}
        assert place.left_behind(guest.uuid) == []
        assert place.left_behind(other.uuid) != []

    # --- power --------------------------------------------------------------------------------------------------------

    def test_off_and_on_again(self, place: Place) -> None:
        guest = place.made()
        for _ in range(2):
            place.driver.stop(guest.uuid)
            assert place.state(guest) is SHUTDOWN
        for _ in range(2):
            place.driver.start(guest.uuid)
            assert place.state(guest) is RUNNING

    def test_a_guest_that_obeys_shuts_down_by_itself(self, place: Place) -> None:
        guest = place.made()
        place.driver.stop(guest.uuid, Ages())
        assert place.state(guest) is SHUTDOWN

    def test_one_that_does_not_is_powered_off_when_patience_is_over(self, place: Place) -> None:
        guest = place.made(place.stubborn)
        place.driver.stop(guest.uuid, Ages(looks=3))
        assert place.state(guest) is SHUTDOWN

    def test_an_agent_that_ends_leaves_it_as_it_is(self, place: Place) -> None:
        guest = place.made(place.stubborn)
        with pytest.raises(AgentStopsError):
            place.driver.stop(guest.uuid, Ages(stops=True))
        assert place.state(guest) is RUNNING

    @pytest.mark.parametrize("before", [None, "pause", "suspend"])
    def test_it_is_stopped_whatever_it_does(self, place: Place, before: str | None) -> None:
        guest = place.made()
        if before is not None:
            getattr(place.driver, before)(guest.uuid)
        place.driver.stop(guest.uuid, Ages())
        assert place.state(guest) is SHUTDOWN
        place.driver.start(guest.uuid)
        assert place.state(guest) is RUNNING

    def test_pause_and_suspend_there_and_back(self, place: Place) -> None:
        guest, driver = place.made(), place.driver
        for there, state, back in (
            (driver.pause, PAUSED, driver.unpause),
            (driver.suspend, SUSPENDED, driver.resume),
        ):
            for _ in range(2):
                there(guest.uuid)
                assert place.state(guest) is state
            for _ in range(2):
                back(guest.uuid)
                assert place.state(guest) is RUNNING

    @pytest.mark.parametrize("call", ["pause", "unpause", "suspend", "resume"])
    def test_one_that_is_off_is_neither_paused_nor_suspended(self, place: Place, call: str) -> None:
        guest = place.made()
        place.driver.stop(guest.uuid)
        with pytest.raises(DriverError):
            getattr(place.driver, call)(guest.uuid)
        assert place.state(guest) is SHUTDOWN

    @pytest.mark.parametrize("stubborn", [False, True])
    def test_a_soft_reboot(self, place: Place, *, stubborn: bool) -> None:
        guest = place.made(place.stubborn if stubborn else place.image)
        place.driver.soft_reboot(guest.uuid, Ages(looks=3 if stubborn else 600))
        assert place.state(guest) is RUNNING

    @pytest.mark.parametrize("before", [None, "stop", "pause", "suspend"])
    def test_a_hard_reboot_whatever_it_does(self, place: Place, before: str | None) -> None:
        guest = place.made()
        if before is not None:
            getattr(place.driver, before)(guest.uuid)
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

    @pytest.mark.parametrize(
        "call",
        [
            *("start", "stop", "pause", "unpause", "suspend", "resume", "unrescue", "crash_dump", "diagnostics"),
            lambda driver, uuid: driver.soft_reboot(uuid, Ages()),
            lambda driver, uuid: driver.hard_reboot(uuid, None),
            lambda driver, uuid: driver.set_admin_password(uuid, "secret"),
            lambda driver, uuid: driver.console_output(uuid, None),
            lambda driver, uuid: driver.console_end(uuid, ConsoleProtocol.VNC),
            lambda driver, uuid: driver.snapshot(uuid, "image", None, Monitor()),
            lambda driver, uuid: driver.move_away(uuid, ""),
        ],
    )
    def test_of_one_that_is_not_there(self, place: Place, call: str | Callable[[VirtDriver, str], None]) -> None:
        uuid = new_uuid()
        with pytest.raises(DriverError):
            getattr(place.driver, call)(uuid) if isinstance(call, str) else call(place.driver, uuid)
        assert place.left_behind(uuid) == []

    @pytest.mark.parametrize("call", ["destroy", "confirm_move", "abandon_move", "discard_snapshot"])
    def test_what_is_absent_needs_no_removing(self, place: Place, call: str) -> None:
        getattr(place.driver, call)(new_uuid())

    # --- what it does by itself ---------------------------------------------------------------------------------------

    def test_what_happens_by_itself_is_told_once(self, place: Place) -> None:
        place.driver.changed_guests()
        guest, other = place.made(), place.made()
        place.driver.stop(other.uuid)
        place.driver.start(other.uuid)
        assert place.driver.changed_guests() == {}
        place.power_fails(guest.uuid)
        told: dict[str, PowerState] = {}
        wait_until(lambda: told.update(place.driver.changed_guests()) or told, "the change to be told")
        assert told == {guest.uuid: SHUTDOWN}
        assert place.driver.changed_guests() == {}
        place.vanishes(guest.uuid)
        wait_until(lambda: place.driver.changed_guests() == {guest.uuid: NOSTATE}, "its end to be told")

    # --- images -------------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("before", [None, "stop", "pause", "suspend"])
    def test_a_disk_becomes_an_image(self, place: Place, before: str | None) -> None:
        guest, new = place.made(), ImageData(new_uuid(), url="http://control")
        if before is not None:
            getattr(place.driver, before)(guest.uuid)
        state = place.state(guest)
        for _ in range(2):
            place.driver.snapshot(guest.uuid, new.image_id, place.image, Monitor())
        place.agent_dies()
        assert place.uploaded(new) is None
        for _ in range(2):
            place.driver.upload_snapshot(guest.uuid, new, Monitor())
        data = place.uploaded(new)
        assert data
        assert place.state(guest) is state
        for _ in range(2):
            place.driver.discard_snapshot(guest.uuid)
        with pytest.raises(DriverError):
            place.driver.upload_snapshot(guest.uuid, new, Monitor())

    def test_a_snapshot_that_is_given_up_leaves_no_copy(self, place: Place) -> None:
        guest, new = place.made(), ImageData(new_uuid(), url="http://control")
        with pytest.raises(SnapshotCancelled):
            place.driver.snapshot(guest.uuid, new.image_id, place.image, Monitor(SnapshotCancelled))
        with pytest.raises(DriverError):
            place.driver.upload_snapshot(guest.uuid, new, Monitor())
        assert place.state(guest) is RUNNING
        place.driver.snapshot(guest.uuid, new.image_id, place.image, Monitor())  # and now it works

    def test_an_upload_that_is_given_up_may_be_tried_again(self, place: Place) -> None:
        guest, new = place.made(), ImageData(new_uuid(), url="http://control")
        place.driver.snapshot(guest.uuid, new.image_id, place.image, Monitor())
        with pytest.raises(SnapshotCancelled):
            place.driver.upload_snapshot(guest.uuid, new, Monitor(SnapshotCancelled))
        place.driver.upload_snapshot(guest.uuid, new, Monitor())
        assert place.uploaded(new)

    def test_images_are_fetched_beforehand(self, place: Place) -> None:
        assert place.driver.cache_image(place.image) is CacheResult.CACHED
        assert place.driver.cache_image(place.image) is CacheResult.EXISTING
        (cached,) = (each for each in place.driver.cached_images() if each.image_id == place.image.image_id)
        assert cached.size_bytes
        assert not cached.guests
        assert place.driver.cache_image(place.damaged) is CacheResult.ERROR

    # --- looking into it ----------------------------------------------------------------------------------------------

    def test_the_console_says_what_it_has_written(self, place: Place) -> None:
        guest = place.made()
        wait_until(lambda: place.driver.console_output(guest.uuid, None), "the guest to write something")
        assert place.driver.console_output(guest.uuid, 0) == ""
        assert "\n" not in place.driver.console_output(guest.uuid, 1)

    def test_vnc_is_spoken_as_long_as_it_runs(self, place: Place) -> None:
        guest = place.made()
        end = place.driver.console_end(guest.uuid, ConsoleProtocol.VNC)
        with socket.create_connection((end.address, end.port), 10) as client:
            assert client.recv(12).startswith(b"RFB 003.")
        place.driver.stop(guest.uuid)
        with pytest.raises(GuestNotRunning):
            place.driver.console_end(guest.uuid, ConsoleProtocol.VNC)
        with pytest.raises(DriverError):
            place.driver.console_end(guest.uuid, ConsoleProtocol.MKS)

    def test_how_it_is_doing_is_known_as_long_as_it_runs(self, place: Place) -> None:
        guest = place.made()
        found = place.driver.diagnostics(guest.uuid)
        assert (found.driver, found.memory_maximum_mib, len(found.cpus)) == ("libvirt", 32, 1)
        assert len(found.disks) == 1
        place.driver.crash_dump(guest.uuid)
        place.driver.stop(guest.uuid)
        for call in (place.driver.diagnostics, place.driver.crash_dump):
            with pytest.raises(DriverError):
                call(guest.uuid)
        with pytest.raises(DriverError):
            place.driver.set_admin_password(guest.uuid, "secret")

    def test_the_host_says_what_it_is(self, place: Place) -> None:
        report = place.driver.report()
        assert report.host == place.host
        assert {each.resource_class for each in report.inventories} >= {"VCPU", "MEMORY_MB", "DISK_GB"}
        assert place.driver.report() == replace(report, metrics=place.driver.report().metrics)
