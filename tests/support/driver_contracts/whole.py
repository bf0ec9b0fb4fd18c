# SPDX-License-Identifier: Apache-2.0
"""All contracts in one class, for drivers with every ability, and tests that combine abilities."""

from dataclasses import replace

import pytest

from kilonova.compute.virt.abilities import Rescue
from kilonova.identifiers import new_uuid
from kilonova.model.config_drive import ConfigDrive
from kilonova.model.image_data import ImageData
from kilonova.model.instance import PowerState
from support.driver_contracts.consoles import (
    AdminPasswordContract,
    ConsoleOutputContract,
    ConsolesContract,
    CrashDumpContract,
    DiagnosticsContract,
)
from support.driver_contracts.core import CoreContract
from support.driver_contracts.images import ImageCacheContract, SnapshotContract
from support.driver_contracts.interfaces import InterfaceContract
from support.driver_contracts.power import PauseContract, RebootContract, SuspendContract
from support.driver_contracts.rebuild import RebuildContract
from support.driver_contracts.rescue import RescueContract
from support.driver_contracts.resize import ResizeContract
from support.driver_places import GuestTimeout, Monitor, Place

RUNNING = PowerState.RUNNING


class DriverContract(
    CoreContract,
    RebootContract,
    PauseContract,
    SuspendContract,
    RebuildContract,
    RescueContract,
    ResizeContract,
    SnapshotContract,
    ImageCacheContract,
    ConsoleOutputContract,
    ConsolesContract,
    DiagnosticsContract,
    CrashDumpContract,
    InterfaceContract,
    AdminPasswordContract,
):
    """Contract tests of all abilities; a subclass provides the fixture ``place``."""

    @pytest.mark.parametrize("before", ["pause", "suspend"])
    def test_a_hard_reboot_whatever_it_does(self, place: Place, before: str) -> None:
        guest = place.made()
        getattr(place.driver, before)(guest.uuid)
        place.driver.hard_reboot(guest.uuid, None)
        assert place.state(guest) is RUNNING

    def test_a_hard_reboot_ends_a_rescue(self, place: Place) -> None:
        guest = place.made()
        place.driver.rescue(guest, Rescue(place.stubborn.image_id, place.stubborn), GuestTimeout())
        place.agent_dies()
        place.driver.hard_reboot(guest.uuid, None)
        assert place.state(guest) is RUNNING
        assert place.driver.marked_guests() == {guest.uuid: guest.ordered_at}

    @pytest.mark.parametrize("own", [None, ConfigDrive("web")])
    def test_the_password_of_a_rescue_is_gone_with_a_hard_reboot(self, place: Place, own: ConfigDrive | None) -> None:
        guest = place.made(config_drive=own)
        rescued = replace(guest, config_drive=ConfigDrive("web", admin_pass="heliotrope"))
        place.driver.rescue(rescued, Rescue(place.stubborn.image_id, place.stubborn), GuestTimeout())
        place.agent_dies()
        assert len(place.files_with(b"heliotrope")) == 1
        place.driver.hard_reboot(guest.uuid, None)
        assert place.files_with(b"heliotrope") == []

    @pytest.mark.parametrize("before", ["pause", "suspend"])
    def test_a_disk_becomes_an_image_whatever_it_does(self, place: Place, before: str) -> None:
        guest, new = place.made(), ImageData(new_uuid(), url="http://control")
        getattr(place.driver, before)(guest.uuid)
        state = place.state(guest)
        place.driver.snapshot(guest.uuid, new.image_id, place.image, Monitor())
        place.driver.upload_snapshot(guest.uuid, new, Monitor())
        assert place.uploaded(new)
        assert place.state(guest) is state
