# SPDX-License-Identifier: Apache-2.0
"""Free TCP ports for the serial consoles of guests. QEMU listens on these ports while the guest runs."""

import errno
import socket
import threading
from collections.abc import Collection
from xml.etree import ElementTree as ET

from kilonova.config.consoles import PortRange
from kilonova.errors import DriverError


class SerialPorts:
    """The port range of one address.

    Ports are tried in rotation, so that guests created at the same time get different ports.
    """

    def __init__(self, address: str, ports: PortRange) -> None:
        self._address = address
        self._ports = range(ports.first, ports.last + 1)
        self._next = 0
        self._lock = threading.Lock()

    def find(self, count: int, taken: Collection[int]) -> tuple[int, ...]:
        """Return ``count`` ports that are neither in use nor ``taken``. Raises: DriverError."""
        found: list[int] = []
        with self._lock:
            for _ in self._ports:
                if len(found) == count:
                    break
                port = self._ports[self._next]
                self._next = (self._next + 1) % len(self._ports)
                if port not in taken and self._is_free(port):
                    found.append(port)
        if len(found) < count:
            raise DriverError("No port is free for a serial console: [serial_console] port_range is used up.")
        return tuple(found)

    def _is_free(self, port: int) -> bool:
        family = socket.AF_INET6 if ":" in self._address else socket.AF_INET
        with socket.socket(family) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as QEMU does
            try:
                trial.bind((self._address, port))
            except OSError as error:
                # An address that is not available here exists only in the guests' network namespace. There, only guests
                # use ports, and their ports are in ``taken``.
                return error.errno == errno.EADDRNOTAVAIL
        return True


def serial_ports_in(domain: str) -> tuple[int, ...]:
    """Return the TCP ports of the serial consoles in the XML of a domain, in the order of the serial ports."""
    sources = ET.fromstring(domain).iterfind("devices/serial[@type='tcp']/source[@mode='bind']")  # noqa: S314 - libvirt's
    return tuple(int(source.get("service", "0")) for source in sources)
