# SPDX-License-Identifier: Apache-2.0
"""What helps with a guest of a simulated hypervisor that does not work: rescue, a new password, a crash dump."""

from collections.abc import Mapping
from dataclasses import replace

from kilonova.compute.virt.base import ShutdownPatience
from kilonova.compute.virt.fake.hypervisor import AWAKE, SimulatedHypervisor
from kilonova.errors import DriverError
from kilonova.model.image_data import ImageData
from kilonova.model.instance import GuestSpec, PowerState


class Rescues(SimulatedHypervisor):
    """Starts a guest from another image beside its own disk, and back; reaches into a guest."""

    def rescue(
        self,
        guest: GuestSpec,
        image_ref: str,
        image: ImageData | None,
        admin_password: str,
        patience: ShutdownPatience | None = None,
        image_properties: Mapping[str, str] | None = None,
    ) -> None:
        del admin_password, image_properties  # nobody logs in to a simulated guest
        self._take(self._host.spawn_delay_s)
        if self._images is not None and image is not None:
            self._images.fetch(image)
        with self._lock:
            present = self._present(guest.uuid)
        if present.state is PowerState.RUNNING and present.rescue_image_ref != image_ref:
            self._shut_down(patience)
        with self._lock:
            present = self._present(guest.uuid)
            if present.rescue_image_ref != image_ref or present.state is not PowerState.RUNNING:
                rescued = replace(present, rescue_image_ref=image_ref)
                self._drives.make_for_rescue(guest)
                try:
                    self._guests.put(guest.uuid, guest=rescued.booted(f"rescue from image {image_ref}"))
                except DriverError:
                    self._drives.end_rescue(guest.uuid)
                    raise

    def unrescue(self, uuid: str) -> None:
        with self._lock:
            present = self._present(uuid)
            if present.rescue_image_ref is not None or present.state is not PowerState.RUNNING:
                own = replace(present, rescue_image_ref=None)
                self._guests.put(uuid, guest=own.booted("start from its own disk"))
            self._drives.end_rescue(uuid)

    def set_admin_password(self, uuid: str, admin_password: str) -> None:
        del admin_password
        self._tell_inside(uuid, "The password of the administrator was set")

    def crash_dump(self, uuid: str) -> None:
        self._tell_inside(uuid, "Non-maskable interrupt: a crash dump was written")

    def _tell_inside(self, uuid: str, what: str) -> None:
        with self._lock:
            guest = self._present(uuid)
            if guest.state not in AWAKE:
                raise DriverError(f"Guest {uuid} does not run.")
            self._guests.put(uuid, guest=guest.wrote(what))
