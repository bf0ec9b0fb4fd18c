# SPDX-License-Identifier: Apache-2.0
"""Console logs and console endpoints of simulated guests.

The console log of a guest has a short boot sequence for each start, and one line for each other event. The VNC and
serial endpoints implement their protocols, so that console proxies and clients can connect to them.
"""

from collections.abc import Iterator

from kilonova.compute.virt.abilities import CONSOLE_BYTES
from kilonova.compute.virt.fake.console_ends import ConsoleEnds, serial_port
from kilonova.compute.virt.fake.guests import ConsoleEntry, SimulatedGuest
from kilonova.compute.virt.fake.hypervisor import LOOPBACK, SimulatedHypervisor
from kilonova.compute.virt.fake.rfb import black_screen
from kilonova.errors import GuestNotRunning, Unsupported
from kilonova.model.console import ConsoleEnd, ConsoleProtocol
from kilonova.model.instance import PowerState


class Consoles:
    """Returns console logs, whose last line looks like a login prompt, and opens console endpoints."""

    def __init__(self, hypervisor: SimulatedHypervisor) -> None:
        self._hypervisor = hypervisor
        self._ends: ConsoleEnds | None = None

    def console_output(self, uuid: str, lines: int | None) -> str:
        with self._hypervisor.lock:
            guest = self._hypervisor.present(uuid)
        log = [line for entry in guest.console for line in _lines(uuid, guest, entry)]
        return "\n".join(_last(log, lines))[-CONSOLE_BYTES:]

    def console_end(self, uuid: str, protocol: ConsoleProtocol) -> ConsoleEnd:
        match protocol:
            case ConsoleProtocol.VNC:
                talk = black_screen(f"Kilonova simulated guest {uuid}")
            case ConsoleProtocol.SERIAL:
                talk = serial_port(lambda: self.console_output(uuid, None))
            case _:
                raise Unsupported(f"Simulated guests have no {protocol.value.upper()} console.")
        if not self._runs(uuid):
            raise GuestNotRunning(uuid)
        address = self._hypervisor.addresses.get(protocol, LOOPBACK)
        with self._hypervisor.lock:
            ends = self._ends = self._ends or ConsoleEnds()
        port = ends.port_of((uuid, protocol), address.listen, talk, lambda: self._runs(uuid))
        return ConsoleEnd(address.reached_at, port)

    def _runs(self, uuid: str) -> bool:
        with self._hypervisor.lock:
            return self._hypervisor.present(uuid).state is PowerState.RUNNING

    def close(self) -> None:
        with self._hypervisor.lock:
            ends, self._ends = self._ends, None
        if ends is not None:
            ends.close()


def _last(log: list[str], lines: int | None) -> list[str]:
    if lines is None:
        return log
    return log[-lines:] if lines else []


def _lines(uuid: str, guest: SimulatedGuest, entry: ConsoleEntry) -> Iterator[str]:
    if not entry.is_boot:
        yield f"[{entry.at}] {entry.what}"
        return
    yield f"[    0.000000] Kilonova simulated guest {uuid}"
    yield f"[    0.000100] Boot at {entry.at}: {entry.what}"
    yield f"[    0.000200] {guest.vcpus} CPUs, {guest.memory_mib} MiB of memory, {', '.join(guest.disks.values())}"
    yield "[    0.000300] Started all services"
    yield "login:"
