# SPDX-License-Identifier: Apache-2.0
"""Real guests are rebooted: shut down in order or powered off, and started."""

from kilonova.compute.virt.base import ShutdownPatience
from kilonova.compute.virt.libvirt.power import Power
from kilonova.compute.virt.libvirt.spawns import Spawns
from kilonova.errors import GuestMissing
from kilonova.model.instance import GuestSpec, PowerState


class Reboots(Power, Spawns):
    """Reboots guests, and makes those anew that are gone."""

    def soft_reboot(self, uuid: str, patience: ShutdownPatience) -> None:
        with self._changes.ordered(uuid, PowerState.RUNNING):
            domain = self._domains.get(uuid)
            self._stop(domain, patience)
            domain.power_on()

    def hard_reboot(self, uuid: str, guest: GuestSpec | None) -> None:
        with self._changes.ordered(uuid, PowerState.RUNNING):
            domain = self._domains.find(uuid)
            if domain is not None:
                self._stop(domain, None)
                self._from_own_disk(domain).power_on()
            elif guest is not None:
                self._remake(guest)
            else:
                raise GuestMissing(uuid)
