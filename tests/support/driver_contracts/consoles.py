# SPDX-License-Identifier: Apache-2.0
"""Contract of drivers with console output, consoles, password injection or crash dumps."""

import socket

import pytest

from kilonova.errors import DriverError, GuestNotRunning
from kilonova.model.ability import Ability
from kilonova.model.console import ConsoleProtocol
from support.driver_contracts.absent import refuses_absent
from support.driver_places import Place
from support.waiting import wait_until


class ConsoleOutputContract:
    ability = Ability.CONSOLE_OUTPUT

    def test_the_console_says_what_it_has_written(self, place: Place) -> None:
        guest = place.made()
        wait_until(lambda: place.driver.console_output(guest.uuid, None), "the guest to write something")
        assert place.driver.console_output(guest.uuid, 0) == ""
        assert "\n" not in place.driver.console_output(guest.uuid, 1)

    def test_one_that_is_not_there_has_written_nothing(self, place: Place) -> None:
        refuses_absent(place, lambda uuid: place.driver.console_output(uuid, None))


class ConsolesContract:
    ability = Ability.CONSOLES

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

    def test_one_that_is_not_there_has_no_console(self, place: Place) -> None:
        refuses_absent(place, lambda uuid: place.driver.console_end(uuid, ConsoleProtocol.VNC))


class DiagnosticsContract:
    ability = Ability.DIAGNOSTICS

    def test_how_it_is_doing_is_known_as_long_as_it_runs(self, place: Place) -> None:
        guest = place.made()
        found = place.driver.diagnostics(guest.uuid)
        assert (found.driver, found.memory_maximum_mib, len(found.cpus)) == ("libvirt", 32, 1)
        assert len(found.disks) == 1
        place.driver.stop(guest.uuid)
        refuses_absent(place, place.driver.diagnostics)
        with pytest.raises(DriverError):
            place.driver.diagnostics(guest.uuid)


class CrashDumpContract:
    ability = Ability.CRASH_DUMP

    def test_it_is_interrupted_as_long_as_it_runs(self, place: Place) -> None:
        guest = place.made()
        place.driver.crash_dump(guest.uuid)
        place.driver.stop(guest.uuid)
        refuses_absent(place, place.driver.crash_dump)
        with pytest.raises(DriverError):
            place.driver.crash_dump(guest.uuid)


class AdminPasswordContract:
    ability = Ability.ADMIN_PASSWORD

    def test_no_password_is_set_in_one_that_is_off(self, place: Place) -> None:
        guest = place.made()
        place.driver.stop(guest.uuid)
        refuses_absent(place, lambda uuid: place.driver.set_admin_password(uuid, "secret"))
        with pytest.raises(DriverError):
            place.driver.set_admin_password(guest.uuid, "secret")
