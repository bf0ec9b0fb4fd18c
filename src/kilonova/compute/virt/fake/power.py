# SPDX-License-Identifier: Apache-2.0
"""Guests of a simulated hypervisor are started, stopped, rebooted, paused and suspended."""

from dataclasses import replace

from kilonova.compute.virt.fake.hypervisor import SimulatedHypervisor
from kilonova.errors import DriverError
from kilonova.model.instance import PowerState


class Power(SimulatedHypervisor):
    """Changes the power state of a guest."""

    def start(self, uuid: str) -> None:
        with self._lock:
            guest = self._present(uuid)
            if guest.state is not PowerState.RUNNING:
                self._guests.put(uuid, guest=replace(guest, rescue_image_ref=None).booted("start"))

    def stop(self, uuid: str) -> None:
        self._set_state(uuid, PowerState.SHUTDOWN)

    def reboot(self, uuid: str, *, hard: bool) -> None:
        with self._lock:
            guest = self._present(uuid)
            if hard:
                self._guests.put(uuid, guest=replace(guest, rescue_image_ref=None).booted("hard reboot"))
            else:
                self._guests.put(uuid, guest=guest.booted("soft reboot"))

    def pause(self, uuid: str) -> None:
        self._go_from(PowerState.RUNNING, PowerState.PAUSED, uuid)

    def unpause(self, uuid: str) -> None:
        self._go_from(PowerState.PAUSED, PowerState.RUNNING, uuid)

    def suspend(self, uuid: str) -> None:
        self._go_from(PowerState.RUNNING, PowerState.SUSPENDED, uuid)

    def resume(self, uuid: str) -> None:
        self._go_from(PowerState.SUSPENDED, PowerState.RUNNING, uuid)

    def _go_from(self, before: PowerState, after: PowerState, uuid: str) -> None:
        with self._lock:
            guest = self._present(uuid)
            if guest.state not in {before, after}:
                raise DriverError(f"Guest {uuid} is {guest.state.name.lower()}, not {before.name.lower()}.")
            self._guests.put(uuid, guest=replace(guest, state=after))
