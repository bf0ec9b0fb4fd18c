# SPDX-License-Identifier: Apache-2.0
"""Contract of drivers that rebuild guests."""

from dataclasses import replace

import pytest

from kilonova.errors import ImageUnusable, UnsupportedGuest
from kilonova.model.ability import Ability
from kilonova.model.instance import PowerState
from support.driver_places import Place, later

RUNNING, SHUTDOWN = PowerState.RUNNING, PowerState.SHUTDOWN


class RebuildContract:
    ability = Ability.REBUILD

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
