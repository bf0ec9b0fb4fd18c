# SPDX-License-Identifier: Apache-2.0
"""Contract of drivers that upload snapshots or cache images."""

import pytest

from kilonova.errors import DriverError, SnapshotCancelled
from kilonova.identifiers import new_uuid
from kilonova.model.ability import Ability
from kilonova.model.image_data import CacheResult, ImageData
from kilonova.model.instance import PowerState
from support.driver_contracts.absent import refuses_absent
from support.driver_places import Monitor, Place


class SnapshotContract:
    ability = Ability.SNAPSHOT

    @pytest.mark.parametrize("is_off", [False, True])
    def test_a_disk_becomes_an_image(self, place: Place, *, is_off: bool) -> None:
        guest, new = place.made(), ImageData(new_uuid(), url="http://control")
        if is_off:
            place.driver.stop(guest.uuid)
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
        assert place.state(guest) is PowerState.RUNNING
        place.driver.snapshot(
            guest.uuid, new.image_id, place.image, Monitor()
        )  # a new snapshot after the failed one succeeds

    def test_an_upload_that_is_given_up_may_be_tried_again(self, place: Place) -> None:
        guest, new = place.made(), ImageData(new_uuid(), url="http://control")
        place.driver.snapshot(guest.uuid, new.image_id, place.image, Monitor())
        with pytest.raises(SnapshotCancelled):
            place.driver.upload_snapshot(guest.uuid, new, Monitor(SnapshotCancelled))
        place.driver.upload_snapshot(guest.uuid, new, Monitor())
        assert place.uploaded(new)

    def test_of_one_that_is_not_there_no_image_is_made(self, place: Place) -> None:
        refuses_absent(place, lambda uuid: place.driver.snapshot(uuid, "image", None, Monitor()))
        place.driver.discard_snapshot(new_uuid())


class ImageCacheContract:
    ability = Ability.IMAGE_CACHE

    def test_images_are_fetched_beforehand(self, place: Place) -> None:
        assert place.driver.cache_image(place.image) is CacheResult.CACHED
        assert place.driver.cache_image(place.image) is CacheResult.EXISTING
        (cached,) = (each for each in place.driver.cached_images() if each.image_id == place.image.image_id)
        assert cached.size_bytes
        assert not cached.guests
        assert place.driver.cache_image(place.damaged) is CacheResult.ERROR
