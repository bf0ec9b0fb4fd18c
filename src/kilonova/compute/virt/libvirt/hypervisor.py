# SPDX-License-Identifier: Apache-2.0
"""Shared part of the libvirt driver: connection, domains, disks, and the definition of guests."""

import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
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
from kilonova.compute.virt.libvirt.late_check import why_not
from kilonova.compute.virt.libvirt.power_changes import PowerChanges
from kilonova.compute.virt.libvirt.report import HostReport
from kilonova.config.consoles import ConsoleSettings
from kilonova.config.libvirt import LibvirtSettings
from kilonova.errors import DriverError, HypervisorAway, UnsupportedGuest
from kilonova.model.host import NodeReport
from kilonova.model.instance import GuestSpec, PowerState

_INACTIVE = libvirt.VIR_DOMAIN_XML_INACTIVE
_REDEFINED = frozenset({libvirt.VIR_DOMAIN_EVENT_DEFINED, libvirt.VIR_DOMAIN_EVENT_UNDEFINED})


class LibvirtHost:
    """One host. Its guests are the libvirt domains with Kilonova's mark, and the kept guests, which are only files."""

    def __init__(self, setup: HostSetup, settings: LibvirtSettings, consoles: ConsoleSettings | None = None) -> None:
        self.setup = setup
        self.settings = settings
        self.consoles = consoles or ConsoleSettings()
        self.connection = Connection(settings.connection_uri, self._happened, self._reopened)
        self.domains = Domains(self.connection)
        self.disks = GuestDisks(setup.folder, setup.images, settings)
        self.copies = SnapshotFiles(settings.snapshots_directory or setup.folder / "snapshots")
        self.report = HostReport(setup, settings)
        self.changes = PowerChanges(self.states)
        self.serial_ports = SerialPorts(self.consoles.serial_listens_at, self.consoles.serial_ports)
        self.console_logs = console_logs.ConsoleLogs(setup.folder)
        self.closing = threading.Event()

    def _happened(self, uuid: str, event: int) -> None:
        if event in _REDEFINED:
            self.domains.forget(uuid)
        self.changes.touch(uuid)

    def _reopened(self) -> None:
        self.domains.forget_all()
        self.changes.touch_all()

    def node_report(self) -> NodeReport:
        return self.report.report(self.connection.use())

    def take_changes(self) -> Mapping[str, PowerState]:
        """Return the guests whose power state changed without an order; none while the hypervisor is unreachable."""
        try:
            self.connection.use()  # events are delivered only while a connection is open
            return self.changes.take()
        except HypervisorAway:  # the connection has already logged the error
            return {}

    def marks(self) -> Mapping[str, datetime]:
        kept = {uuid: mark.ordered_at for uuid in self.disks.kept() if (mark := self.kept_mark(uuid)) is not None}
        return {**kept, **{domain.uuid: domain.mark.ordered_at for domain in self.domains.all()}}

    def close(self) -> None:
        self.closing.set()
        self.console_logs.stop()
        self.connection.close()

    def states(self) -> Mapping[str, PowerState]:
        """Return instance uuid → power state of all guests. An instance with only a kept guest is SHUTDOWN."""
        return {**dict.fromkeys(self.disks.kept(), PowerState.SHUTDOWN), **self.domains.states()}

    # --- definition of domains ----------------------------------------------------------------------------------------

    def require_possible(self, guest: GuestSpec) -> None:
        """Check that the host supports all features that a guest requires.

        Raises: UnsupportedGuest, which names the unsupported property; DriverError.
        """
        host = self.report.capabilities(self.connection.use())
        reason = why_not(guest, host, self.settings, self.setup.resources.cpu_shared_set or frozenset())
        if reason is not None:
            raise UnsupportedGuest(reason)

    def define(self, guest: GuestSpec, disks: tuple[DiskFile, ...], origin: Origin) -> OwnDomain:
        """Define the domain of a guest with ``disks``, and store the domain XML in the guest's folder.

        Raises: DriverError.
        """
        mark = GuestMark.of(guest, origin)
        xml = self.described(guest, disks, mark)
        self.note(mark.uuid, xml)
        return self.domains.define(xml, mark)

    def described(
        self, guest: GuestSpec, disks: tuple[DiskFile, ...], mark: GuestMark, rescue: Mapping[str, str] | None = None
    ) -> str:
        """Return the domain XML of a guest. ``rescue``: properties of the rescue image; None outside a rescue.

        Raises: UnsupportedGuest, DriverError.
        """
        domain = describe(
            guest,
            self.report.capabilities(self.connection.use()),
            disks,
            self.settings,
            console_log=self.disks.folder(guest.uuid) / console_logs.NAME,
            consoles=self.consoles,
            mark=mark.xml(),
            rescue=rescue,
            serial_tcp_ports=self._serial_tcp_ports(guest),
            shared_cpus=self.setup.resources.cpu_shared_set or frozenset(),
        )
        return domain_xml(domain)

    def _serial_tcp_ports(self, guest: GuestSpec) -> tuple[int, ...]:
        """Return free TCP ports for a guest's serial consoles; none if serial consoles are disabled.

        Raises: DriverError.
        """
        if not self.consoles.serial_enabled:
            return ()
        taken = {port for domain in self.domains.all() for port in _serial_ports_of(domain)}
        return self.serial_ports.find(serial_ports(GuestOptions(guest)), taken)

    # --- stored domain XML --------------------------------------------------------------------------------------------

    def note(self, uuid: str, xml: str) -> None:
        """Store the domain XML of a guest in its folder, to define the guest again later. Raises: DriverError."""
        note = _note_in(self.disks.folder(uuid))
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
            raise DriverError(
                f"Host {self.setup.host} cannot store domain.xml of guest {uuid}: {error.strerror}."
            ) from error

    def noted(self, uuid: str, *, kept: bool = False) -> str | None:
        """Return the domain XML in the folder of a guest, or None if there is none. Raises: DriverError.

        ``kept``: read the folder of the instance's kept guest instead.
        """
        folder = self.disks.kept_folder(uuid) if kept else self.disks.folder(uuid)
        try:
            return _note_in(folder).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DriverError(
                f"Host {self.setup.host} cannot read domain.xml of guest {uuid}: {error.strerror}."
            ) from error

    def kept_mark(self, uuid: str) -> GuestMark | None:
        noted = self.noted(uuid, kept=True)
        return None if noted is None else read_mark(noted)


def _serial_ports_of(domain: OwnDomain) -> tuple[int, ...]:
    """Return the TCP ports of the serial consoles of a guest, running or off; empty if the guest was removed.

    Raises: DriverError.
    """
    with explained(f"read the serial ports of guest {domain.uuid}"):
        try:
            return serial_ports_in(domain.handle.XMLDesc(_INACTIVE))
        except libvirt.libvirtError as error:
            if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
                raise
            return ()


def _note_in(folder: Path) -> Path:
    return folder / "domain.xml"
