# SPDX-License-Identifier: Apache-2.0
"""Power state changes of simulated guests: start, stop, pause and suspend."""

from dataclasses import replace

from kilonova.compute.virt.base import ShutdownTimeout
from kilonova.compute.virt.fake.hypervisor import SimulatedHypervisor
from kilonova.errors import DriverError
from kilonova.model.instance import PowerState
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Power:
    """Changes the power state of a guest."""

    hypervisor: SimulatedHypervisor

    def start(self, uuid: str) -> None:
        self.power_on(uuid, "start")

    def stop(self, uuid: str, timeout: ShutdownTimeout | None = None) -> None:
        with self.hypervisor.lock:
            runs = self.hypervisor.present(uuid).state is PowerState.RUNNING
        if runs:
            self.hypervisor.shut_down(timeout)
        self.hypervisor.set_state(uuid, PowerState.SHUTDOWN)

    def power_on(self, uuid: str, how: str) -> None:
        """Start a guest from its own disk; a soft reboot during a rescue boots the rescue image again."""
        self.hypervisor.take(self.hypervisor.host.start_delay_s)
        with self.hypervisor.lock:
            guest = self.hypervisor.present(uuid)
            if guest.state is not PowerState.RUNNING:
                system = None if how != "soft reboot" else guest.rescue_image_ref
                self.hypervisor.guests.put(uuid, guest=replace(guest, rescue_image_ref=system).booted(how))
                if system is None:
                    self.hypervisor.drives.end_rescue(uuid)

    def pause(self, uuid: str) -> None:
        self._go_from(PowerState.RUNNING, PowerState.PAUSED, uuid)

    def unpause(self, uuid: str) -> None:
        self._go_from(PowerState.PAUSED, PowerState.RUNNING, uuid)

    def suspend(self, uuid: str) -> None:
        self._go_from(PowerState.RUNNING, PowerState.SUSPENDED, uuid)

    def resume(self, uuid: str) -> None:
        self._go_from(PowerState.SUSPENDED, PowerState.RUNNING, uuid)

    def _go_from(self, before: PowerState, after: PowerState, uuid: str) -> None:
        with self.hypervisor.lock:
            guest = self.hypervisor.present(uuid)
            if guest.state not in {before, after}:
                raise DriverError(f"Guest {uuid} is {guest.state.name.lower()}, not {before.name.lower()}.")
            self.hypervisor.guests.put(uuid, guest=replace(guest, state=after))
