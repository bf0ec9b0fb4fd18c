# SPDX-License-Identifier: Apache-2.0
"""Rebuilds of simulated guests."""

from dataclasses import replace

from kilonova.compute.virt.fake.guests import Origin
from kilonova.compute.virt.fake.hypervisor import SimulatedHypervisor
from kilonova.model.instance import GuestSpec, PowerState
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Rebuilds:
    """Replaces a guest by a new guest."""

    hypervisor: SimulatedHypervisor

    def rebuild(self, guest: GuestSpec, *, power_on: bool) -> None:
        self.hypervisor.take(self.hypervisor.host.spawn_delay_s)
        state = PowerState.RUNNING if power_on else PowerState.SHUTDOWN
        present = self.hypervisor.guests.guest(guest.uuid)
        is_made = present is not None and present.ordered_at == guest.ordered_at
        data = None
        if self.hypervisor.images is not None and guest.image is not None and not is_made:
            data = self.hypervisor.images.fetch(guest.image)
        with self.hypervisor.lock:
            present = self.hypervisor.guests.guest(guest.uuid)
            if present is not None and present.ordered_at == guest.ordered_at:
                self.hypervisor.guests.put(guest.uuid, guest=replace(present, state=state), kept=None)
            else:
                self.hypervisor.make(guest, state, Origin.SPAWNED, fails="spawn", to="rebuild", data=data, kept=None)
