# SPDX-License-Identifier: Apache-2.0
"""Contract of every driver: create, delete, start, stop and list guests, and report the host."""

from dataclasses import replace

import pytest

from kilonova.compute.virt.abilities import abilities_of
from kilonova.compute.virt.base import AgentStopsError
from kilonova.errors import ImageUnusable, UnsupportedGuest
from kilonova.identifiers import new_uuid
from kilonova.model.ability import Ability
from kilonova.model.instance import PowerState
from support.driver_contracts.absent import refuses_absent
from support.driver_places import GuestTimeout, Place
from support.waiting import wait_until

NOSTATE, RUNNING, SHUTDOWN = PowerState.NOSTATE, PowerState.RUNNING, PowerState.SHUTDOWN


class CoreContract:
    """Contract tests; a subclass provides the fixture ``place``."""

    #: Ability that a contract tests.
    ability: Ability

    def test_each_ability_that_it_has_is_tried(self, place: Place) -> None:
        tried = {vars(cls)["ability"] for cls in type(self).__mro__ if "ability" in vars(cls)}
        between_hosts = {Ability.COLD_MIGRATE, Ability.LIVE_MIGRATE}  # moves between hosts need two places
        assert tried == abilities_of(place.driver) - between_hosts

    # --- creating and deleting ----------------------------------------------------------------------------------------

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
        place.driver.destroy(new_uuid())

    # --- power --------------------------------------------------------------------------------------------------------

    def test_off_and_on_again(self, place: Place) -> None:
        guest = place.made()
        for _ in range(2):
            place.driver.stop(guest.uuid)
            assert place.state(guest) is SHUTDOWN
        for _ in range(2):
            place.driver.start(guest.uuid)
            assert place.state(guest) is RUNNING
        assert place.driver.marked_guests() == {guest.uuid: guest.ordered_at}

    def test_a_guest_that_obeys_shuts_down_by_itself(self, place: Place) -> None:
        guest = place.made()
        place.driver.stop(guest.uuid, GuestTimeout())
        assert place.state(guest) is SHUTDOWN

    def test_one_that_does_not_is_powered_off_when_patience_is_over(self, place: Place) -> None:
        guest = place.made(place.stubborn)
        place.driver.stop(guest.uuid, GuestTimeout(looks=3))
        assert place.state(guest) is SHUTDOWN

    def test_an_agent_that_ends_leaves_it_as_it_is(self, place: Place) -> None:
        guest = place.made(place.stubborn)
        with pytest.raises(AgentStopsError):
            place.driver.stop(guest.uuid, GuestTimeout(stops=True))
        assert place.state(guest) is RUNNING

    def test_one_that_is_not_there_is_neither_started_nor_stopped(self, place: Place) -> None:
        refuses_absent(place, place.driver.start, place.driver.stop)

    # --- reports ------------------------------------------------------------------------------------------------------

    def test_what_happens_by_itself_is_told_once(self, place: Place) -> None:
        place.driver.changed_guests()
        guest, other = place.made(), place.made()
        place.driver.stop(other.uuid)
        place.driver.start(other.uuid)
        assert place.driver.changed_guests() == {}
        place.power_fails(guest.uuid)
        told: dict[str, PowerState] = {}
        wait_until(lambda: told.update(place.driver.changed_guests()) or told, "the change to be reported")
        assert told == {guest.uuid: SHUTDOWN}
        assert place.driver.changed_guests() == {}
        place.vanishes(guest.uuid)
        wait_until(lambda: place.driver.changed_guests() == {guest.uuid: NOSTATE}, "the guest's end to be reported")

    def test_the_host_says_what_it_is(self, place: Place) -> None:
        report = place.driver.report()
        assert report.host == place.host
        assert {each.resource_class for each in report.inventories} >= {"VCPU", "MEMORY_MB", "DISK_GB"}
        assert place.driver.report() == replace(report, metrics=place.driver.report().metrics)
