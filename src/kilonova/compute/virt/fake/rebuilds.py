# SPDX-License-Identifier: Apache-2.0
"""Guests of a simulated hypervisor are made anew."""

from dataclasses import replace

from kilonova.compute.virt.fake.guests import Origin
from kilonova.compute.virt.fake.hypervisor import SimulatedHypervisor
from kilonova.model.instance import GuestSpec, PowerState


class Rebuilds(SimulatedHypervisor):
    """Makes a guest in place of another one."""

    def rebuild(self, guest: GuestSpec, *, power_on: bool) -> None:
        self._take(self._host.spawn_delay_s)
        state = PowerState.RUNNING if power_on else PowerState.SHUTDOWN
        present = self._guests.guest(guest.uuid)
        is_made = present is not None and present.ordered_at == guest.ordered_at
        data = None
        if self._images is not None and guest.image is not None and not is_made:
            data = self._images.fetch(guest.image)
        with self._lock:
            present = self._guests.guest(guest.uuid)
            if present is not None and present.ordered_at == guest.ordered_at:
                self._guests.put(guest.uuid, guest=replace(present, state=state), kept=None)
            else:
                self._make(guest, state, Origin.SPAWNED, fails="spawn", to="rebuild", data=data, kept=None)
