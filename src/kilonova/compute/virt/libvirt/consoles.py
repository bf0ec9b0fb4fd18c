# SPDX-License-Identifier: Apache-2.0
"""Console logs and console addresses of libvirt guests."""

from xml.etree import ElementTree as ET

from kilonova.compute.virt.libvirt.connection import explained
from kilonova.compute.virt.libvirt.console_logs import NAME, end_of
from kilonova.compute.virt.libvirt.domain.serial_ports import serial_ports_in
from kilonova.compute.virt.libvirt.hypervisor import LibvirtHost
from kilonova.errors import DriverError, GuestNotRunning, Unsupported
from kilonova.model.console import ConsoleEnd, ConsoleProtocol
from kilonova.model.instance import PowerState
from kilonova.records import dataclass

_LISTENS_FOR = {ConsoleProtocol.VNC: "vnc", ConsoleProtocol.SPICE: "spice"}


@dataclass(frozen=True, slots=True, eq=False)
class Consoles:
    """Reads the serial console log of a guest, and finds the ports of its consoles."""

    host: LibvirtHost

    def console_output(self, uuid: str, lines: int | None) -> str:
        self.host.domains.get(uuid)
        try:
            text = end_of(self.host.disks.folder(uuid) / NAME).decode("utf-8", "replace")
        except OSError as error:
            raise DriverError(f"The console of guest {uuid} cannot be read: {error.strerror}.") from error
        if lines is None:
            return text
        return "\n".join(text.rstrip("\n").split("\n")[-lines:]) if lines else ""

    def console_end(self, uuid: str, protocol: ConsoleProtocol) -> ConsoleEnd:
        if protocol not in {*_LISTENS_FOR, ConsoleProtocol.SERIAL}:
            raise Unsupported(f"Guests of this host have no {protocol.value.upper()} console.")
        domain = self.host.domains.get(uuid)
        if domain.power_state() not in {PowerState.RUNNING, PowerState.PAUSED}:
            raise GuestNotRunning(uuid)
        with explained(f"return the console address of guest {uuid}"):
            xml = domain.handle.XMLDesc(0)
        if protocol is ConsoleProtocol.SERIAL:
            host, port = self.host.consoles.serial_reached_at, next(iter(serial_ports_in(xml)), -1)
        else:
            host, port = self.host.consoles.vnc_reached_at, _screen_in(xml, _LISTENS_FOR[protocol])
        if port <= 0:
            raise Unsupported(f"Guest {uuid} has no {protocol.value.upper()} console.")
        return ConsoleEnd(host, port)


def _screen_in(xml: str, kind: str) -> int:
    """Return the port of a guest's VNC or SPICE server, or -1 if the guest has none."""
    graphics = ET.fromstring(xml).find(f"devices/graphics[@type='{kind}']")  # noqa: S314 - the XML is from libvirt
    return -1 if graphics is None else int(graphics.get("port", "-1"))
