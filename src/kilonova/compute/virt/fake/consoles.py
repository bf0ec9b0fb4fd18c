# SPDX-License-Identifier: Apache-2.0
"""What guests of a simulated hypervisor write to their consoles: a small log of each boot, and a line of all else."""

from collections.abc import Iterator

from kilonova.compute.virt.base import CONSOLE_BYTES
from kilonova.compute.virt.fake.guests import ConsoleEntry, SimulatedGuest
from kilonova.compute.virt.fake.hypervisor import SimulatedHypervisor


class Consoles(SimulatedHypervisor):
    """Shows the console of a guest, whose last line, as of a guest that waits for a login, has not ended yet."""

    def console_output(self, uuid: str, lines: int | None) -> str:
        with self._lock:
            guest = self._present(uuid)
        log = [line for entry in guest.console for line in _lines(uuid, guest, entry)]
        return "\n".join(_last(log, lines))[-CONSOLE_BYTES:]


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
    yield f"[    0.000200] {guest.vcpus} CPUs, {guest.memory_mib} MiB of memory, disk of {guest.root_gib} GiB"
    yield "[    0.000300] Started all services"
    yield "login:"
