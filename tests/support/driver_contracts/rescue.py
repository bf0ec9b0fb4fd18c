# SPDX-License-Identifier: Apache-2.0
"""Contract of drivers that rescue guests."""

from dataclasses import replace

import pytest

from kilonova.compute.virt.abilities import Rescue
from kilonova.errors import ImageUnusable
from kilonova.model.ability import Ability
from kilonova.model.config_drive import ConfigDrive
from kilonova.model.instance import PowerState
from support.driver_contracts.absent import refuses_absent
from support.driver_places import GuestTimeout, Place

RUNNING = PowerState.RUNNING


class RescueContract:
    ability = Ability.RESCUE

    @pytest.mark.parametrize("back", ["unrescue", "stop and start"])
    def test_rescue_there_and_back(self, place: Place, back: str) -> None:
        guest = place.made()
        for _ in range(2):
            place.driver.rescue(guest, Rescue(place.stubborn.image_id, place.stubborn), GuestTimeout())
            assert place.state(guest) is RUNNING
        place.agent_dies()
        match back:
            case "unrescue":
                for _ in range(2):
                    place.driver.unrescue(guest.uuid)
            case _:
                place.driver.stop(guest.uuid)
                place.driver.start(guest.uuid)
        assert place.state(guest) is RUNNING
        assert place.driver.marked_guests() == {guest.uuid: guest.ordered_at}

    @pytest.mark.parametrize("own", [None, ConfigDrive("web")])
    @pytest.mark.parametrize("back", ["unrescue", "stop and start", "destroy"])
    def test_the_password_of_a_rescue_is_gone_with_it(self, place: Place, back: str, own: ConfigDrive | None) -> None:
        guest = place.made(config_drive=own)
        rescued = replace(guest, config_drive=ConfigDrive("web", admin_pass="heliotrope"))
        for _ in range(2):
            place.driver.rescue(rescued, Rescue(place.stubborn.image_id, place.stubborn), GuestTimeout())
            assert len(place.files_with(b"heliotrope")) == 1
        place.agent_dies()
        assert len(place.files_with(b"heliotrope")) == 1
        match back:
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
            place.driver.rescue(rescued, Rescue(place.damaged.image_id, place.damaged), GuestTimeout())
        assert place.state(guest) is RUNNING
        assert place.files_with(b"heliotrope") == []

    def test_one_that_is_not_there_is_not_rescued(self, place: Place) -> None:
        refuses_absent(place, place.driver.unrescue)
