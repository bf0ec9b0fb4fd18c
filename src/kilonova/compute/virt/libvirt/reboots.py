# SPDX-License-Identifier: Apache-2.0
"""Reboots of libvirt guests: a graceful shutdown or a power-off, then a start."""

from kilonova.compute.virt.base import ShutdownTimeout
from kilonova.compute.virt.libvirt.hypervisor import LibvirtHost
from kilonova.compute.virt.libvirt.power import Power
from kilonova.compute.virt.libvirt.rescued import from_own_disk
from kilonova.compute.virt.libvirt.spawns import Spawns
from kilonova.errors import GuestMissing
from kilonova.model.instance import GuestSpec, PowerState
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Reboots:
    """Reboots guests. A hard reboot creates a guest that is gone."""

    host: LibvirtHost
    power: Power
    spawns: Spawns

    def soft_reboot(self, uuid: str, timeout: ShutdownTimeout) -> None:
        with self.host.changes.ordered(uuid, PowerState.RUNNING):
            domain = self.host.domains.get(uuid)
            self.power.stop_domain(domain, timeout)
            domain.power_on()

    def hard_reboot(self, uuid: str, guest: GuestSpec | None) -> None:
        with self.host.changes.ordered(uuid, PowerState.RUNNING):
            domain = self.host.domains.find(uuid)
            if domain is not None:
                self.power.stop_domain(domain, None)
                from_own_disk(self.host, domain).power_on()
            elif guest is not None:
                self.spawns.remake(guest)
            else:
                raise GuestMissing(uuid)
