# SPDX-License-Identifier: Apache-2.0
"""Guests of a simulated hypervisor are rebooted: off, and on again, as their file shows it in between."""

from kilonova.compute.virt.base import ShutdownPatience
from kilonova.compute.virt.fake.power import Power
from kilonova.model.instance import GuestSpec


class Reboots(Power):
    """Reboots guests, and makes those anew that are gone."""

    def soft_reboot(self, uuid: str, patience: ShutdownPatience) -> None:
        self.stop(uuid, patience)
        self._power_on(uuid, "soft reboot")

    def hard_reboot(self, uuid: str, guest: GuestSpec | None) -> None:
        if guest is not None and self._guests.guest(uuid) is None:
            self._spawn(guest)
            return
        self.stop(uuid)
        self._power_on(uuid, "hard reboot")
