# SPDX-License-Identifier: Apache-2.0
"""What all abilities of a libvirt host have in common: its connection, its guests, their disks, and how one is made."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import libvirt

from kilonova.compute.virt.host_setup import HostSetup
from kilonova.compute.virt.libvirt import console_logs
from kilonova.compute.virt.libvirt.connection import Connection, explained
from kilonova.compute.virt.libvirt.disks.guest_disks import GuestDisks
from kilonova.compute.virt.libvirt.disks.snapshot_files import SnapshotFiles
from kilonova.compute.virt.libvirt.domain.description import DiskFile
from kilonova.compute.virt.libvirt.domain.devices import serial_ports
from kilonova.compute.virt.libvirt.domain.domain_xml import domain_xml
from kilonova.compute.virt.libvirt.domain.guest_options import GuestOptions
from kilonova.compute.virt.libvirt.domain.hardware import describe
from kilonova.compute.virt.libvirt.domain.marks import GuestMark, Origin, read_mark
from kilonova.compute.virt.libvirt.domain.serial_ports import SerialPorts, serial_ports_in
from kilonova.compute.virt.libvirt.domains import Domains, OwnDomain
from kilonova.compute.virt.libvirt.host.late_check import why_not
from kilonova.compute.virt.libvirt.host.report import HostReport
from kilonova.compute.virt.libvirt.power_changes import PowerChanges
from kilonova.config.consoles import ConsoleSettings
from kilonova.config.libvirt import LibvirtSettings
from kilonova.errors import DriverError, UnsupportedGuest
from kilonova.model.instance import GuestSpec, PowerState

_INACTIVE = libvirt.VIR_DOMAIN_XML_INACTIVE
_REDEFINED = frozenset({libvirt.VIR_DOMAIN_EVENT_DEFINED, libvirt.VIR_DOMAIN_EVENT_UNDEFINED})


class LibvirtHost:
    """One host. Guests are what libvirt has with our mark, and what is kept for moves in the host's folder."""

    def __init__(self, setup: HostSetup, settings: LibvirtSettings, consoles: ConsoleSettings | None = None) -> None:
        self._setup = setup
        self._settings = settings
        self._consoles = consoles or ConsoleSettings()
        self._connection = Connection(settings.connection_uri, self._happened, self._reopened)
        self._domains = Domains(self._connection)
        self._disks = GuestDisks(setup.folder, setup.images, settings)
        self._copies = SnapshotFiles(settings.snapshots_directory or setup.folder / "snapshots")
        self._report = HostReport(setup, settings)
        self._changes = PowerChanges(self._states)
        self._serial_ports = SerialPorts(self._consoles.serial_reached_at, self._consoles.serial_ports)
        self._console_logs = console_logs.ConsoleLogs(setup.folder)

    def _happened(self, uuid: str, event: int) -> None:
        if event in _REDEFINED:
            self._domains.forget(uuid)
        self._changes.touch(uuid)

    def _reopened(self) -> None:
        self._domains.forget_all()
        self._changes.touch_all()

    def _states(self) -> Mapping[str, PowerState]:
        """Return every guest by instance uuid; what is only kept is off."""
        return {**dict.fromkeys(self._disks.kept(), PowerState.SHUTDOWN), **self._domains.states()}

    # --- making one ---------------------------------------------------------------------------------------------------

    def _require_possible(self, guest: GuestSpec) -> None:
        """Raises: UnsupportedGuest, naming what the host lacks; DriverError."""
        host = self._report.capabilities(self._connection.use())
        reason = why_not(guest, host, self._settings, self._setup.resources.cpu_shared_set or frozenset())
        if reason is not None:
            raise UnsupportedGuest(reason)

    def _define(self, guest: GuestSpec, disks: tuple[DiskFile, ...], origin: Origin) -> OwnDomain:
        """Have libvirt know a guest with these disks, and note in its folder how. Raises: DriverError."""
        mark = GuestMark.of(guest, origin)
        xml = self._described(guest, disks, mark)
        self._note(mark.uuid, xml)
        return self._domains.define(xml, mark)

    def _described(
        self, guest: GuestSpec, disks: tuple[DiskFile, ...], mark: GuestMark, rescue: Mapping[str, str] | None = None
    ) -> str:
        """Return what libvirt is told of a guest. ``rescue``: properties of the image that it is rescued with.

        Raises: UnsupportedGuest, DriverError.
        """
        domain = describe(
            guest,
            self._report.capabilities(self._connection.use()),
            disks,
            self._settings,
            console_log=self._disks.folder(guest.uuid) / console_logs.NAME,
            consoles=self._consoles,
            mark=mark.xml(),
            rescue=rescue,
            serial_tcp_ports=self._serial_tcp_ports(guest),
            shared_cpus=self._setup.resources.cpu_shared_set or frozenset(),
        )
        return domain_xml(domain)

    def _serial_tcp_ports(self, guest: GuestSpec) -> tuple[int, ...]:
        """Return ports for the serial consoles of a guest, where operators want such. Raises: DriverError."""
        if not self._consoles.serial_enabled:
            return ()
        taken = {port for domain in self._domains.all() for port in _serial_ports_of(domain)}
        return self._serial_ports.find(serial_ports(GuestOptions(guest)), taken)

    # --- what is noted of it beside its disks -------------------------------------------------------------------------

    def _note(self, uuid: str, xml: str) -> None:
        """Note how libvirt was told of a guest, for when it has to be told again. Raises: DriverError."""
        note = _note_in(self._disks.folder(uuid))
        draft = note.with_suffix(".part")
        try:
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
                file.write(xml)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(note)
        except OSError as error:
            with suppress(OSError):
                draft.unlink()
            raise DriverError(f"Host {self._setup.host} cannot note guest {uuid}: {error.strerror}.") from error

    def _noted(self, uuid: str, *, kept: bool = False) -> str | None:
        """Return how libvirt was told of a guest last, or of the one that is kept; None where that is not noted."""
        folder = self._disks.kept_folder(uuid) if kept else self._disks.folder(uuid)
        try:
            return _note_in(folder).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DriverError(f"Host {self._setup.host} cannot read of guest {uuid}: {error.strerror}.") from error

    def _kept_mark(self, uuid: str) -> GuestMark | None:
        noted = self._noted(uuid, kept=True)
        return None if noted is None else read_mark(noted)


def _serial_ports_of(domain: OwnDomain) -> tuple[int, ...]:
    """Return the ports that a guest has whenever it runs; none of one that is gone by now. Raises: DriverError."""
    with explained(f"tell the serial ports of guest {domain.uuid}"):
        try:
            return serial_ports_in(domain.handle.XMLDesc(_INACTIVE))
        except libvirt.libvirtError as error:
            if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
                raise
            return ()


def _note_in(folder: Path) -> Path:
    return folder / "domain.xml"
