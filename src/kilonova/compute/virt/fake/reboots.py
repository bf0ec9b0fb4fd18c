# SPDX-License-Identifier: Apache-2.0
"""Reboots of simulated guests. During its reboot, a guest is powered off in the state file."""

from kilonova.compute.virt.base import ShutdownTimeout
from kilonova.compute.virt.fake.hypervisor import SimulatedHypervisor
from kilonova.compute.virt.fake.power import Power
from kilonova.model.instance import GuestSpec
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Reboots:
    """Reboots guests. A hard reboot creates an absent guest."""

    hypervisor: SimulatedHypervisor
    power: Power

    def soft_reboot(self, uuid: str, timeout: ShutdownTimeout) -> None:
        self.power.stop(uuid, timeout)
        self.power.power_on(uuid, "soft reboot")

    def hard_reboot(self, uuid: str, guest: GuestSpec | None) -> None:
        if guest is not None and self.hypervisor.guests.guest(uuid) is None:
            self.hypervisor.spawn(guest)
            return
        self.power.stop(uuid)
        self.power.power_on(uuid, "hard reboot")
