# SPDX-License-Identifier: Apache-2.0
"""Rescues, password changes and crash dumps of simulated guests."""

from dataclasses import replace

from kilonova.compute.virt.abilities import Rescue
from kilonova.compute.virt.base import ShutdownTimeout
from kilonova.compute.virt.fake.hypervisor import AWAKE, SimulatedHypervisor
from kilonova.errors import DriverError
from kilonova.model.instance import GuestSpec, PowerState
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Rescues:
    """Boots a guest from a rescue image or from its own disk again; sets passwords and triggers crash dumps."""

    hypervisor: SimulatedHypervisor

    def rescue(self, guest: GuestSpec, rescue: Rescue, timeout: ShutdownTimeout | None = None) -> None:
        self.hypervisor.take(self.hypervisor.host.spawn_delay_s)
        if self.hypervisor.images is not None and rescue.image is not None:
            self.hypervisor.images.fetch(rescue.image)
        with self.hypervisor.lock:
            present = self.hypervisor.present(guest.uuid)
        if present.state is PowerState.RUNNING and present.rescue_image_ref != rescue.image_ref:
            self.hypervisor.shut_down(timeout)
        with self.hypervisor.lock:
            present = self.hypervisor.present(guest.uuid)
            if present.rescue_image_ref != rescue.image_ref or present.state is not PowerState.RUNNING:
                rescued = replace(present, rescue_image_ref=rescue.image_ref)
                self.hypervisor.drives.make_for_rescue(guest)
                try:
                    self.hypervisor.guests.put(
                        guest.uuid, guest=rescued.booted(f"rescue from image {rescue.image_ref}")
                    )
                except DriverError:
                    self.hypervisor.drives.end_rescue(guest.uuid)
                    raise

    def unrescue(self, uuid: str) -> None:
        with self.hypervisor.lock:
            present = self.hypervisor.present(uuid)
            if present.rescue_image_ref is not None or present.state is not PowerState.RUNNING:
                own = replace(present, rescue_image_ref=None)
                self.hypervisor.guests.put(uuid, guest=own.booted("start from its own disk"))
            self.hypervisor.drives.end_rescue(uuid)

    def set_admin_password(self, uuid: str, admin_password: str) -> None:
        del admin_password
        self._tell_inside(uuid, "The password of the administrator was set")

    def crash_dump(self, uuid: str) -> None:
        self._tell_inside(uuid, "Non-maskable interrupt: a crash dump was written")

    def _tell_inside(self, uuid: str, what: str) -> None:
        with self.hypervisor.lock:
            guest = self.hypervisor.present(uuid)
            if guest.state not in AWAKE:
                raise DriverError(f"Guest {uuid} does not run.")
            self.hypervisor.guests.put(uuid, guest=guest.wrote(what))
