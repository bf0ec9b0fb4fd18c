# SPDX-License-Identifier: Apache-2.0
"""What helps with a real guest that does not work: rescue, a new password, a crash dump."""

from dataclasses import replace

import libvirt

from kilonova.compute.virt.base import Rescue, ShutdownPatience
from kilonova.compute.virt.libvirt.connection import explained
from kilonova.compute.virt.libvirt.domains import OwnDomain
from kilonova.compute.virt.libvirt.power import Power
from kilonova.errors import DriverError, GuestNotRunning, Unsupported
from kilonova.model.instance import GuestSpec, PowerState

_NO_AGENT = frozenset(
    {
        libvirt.VIR_ERR_AGENT_UNRESPONSIVE,
        libvirt.VIR_ERR_AGENT_UNSYNCED,
        libvirt.VIR_ERR_ARGUMENT_UNSUPPORTED,
        libvirt.VIR_ERR_OPERATION_UNSUPPORTED,
        libvirt.VIR_ERR_NO_SUPPORT,
    }
)
_AWAKE = (PowerState.RUNNING, PowerState.PAUSED)


class Rescues(Power):
    """Starts a guest from another image with its own disk beside it, and back; reaches into a guest."""

    def rescue(self, guest: GuestSpec, rescue: Rescue, patience: ShutdownPatience | None = None) -> None:
        uuid = guest.uuid
        with self._changes.ordered(uuid, PowerState.RUNNING):
            domain = self._domains.get(uuid)
            if domain.mark.rescue_image == rescue.image_ref and domain.power_state() is PowerState.RUNNING:
                return
            if rescue.image is None:
                raise DriverError("The host has no way to the image to rescue from.")
            runs = domain.power_state() is PowerState.RUNNING
            self._stop(domain, patience)
            mark = replace(self._from_own_disk(domain).mark, rescue_image=rescue.image_ref)
            try:
                disks = (*self._disks.make_rescue(guest, rescue.image), *self._disks.present(uuid))
                xml = self._described(guest, disks, mark, rescue=rescue.image_properties)
                self._domains.define(xml, mark).power_on()
            except BaseException:
                back = self._from_own_disk(self._domains.get(uuid))
                if runs:
                    back.power_on()
                raise

    def unrescue(self, uuid: str) -> None:
        with self._changes.ordered(uuid, PowerState.RUNNING):
            domain = self._domains.get(uuid)
            if domain.mark.rescue_image is not None:
                self._stop(domain, None)
            self._start(domain)

    def set_admin_password(self, uuid: str, admin_password: str) -> None:
        domain = self._awake(uuid)
        with explained(f"set the password in guest {uuid}"):
            try:
                domain.handle.setUserPassword(domain.mark.administrator, admin_password, 0)
            except libvirt.libvirtError as error:
                if error.get_error_code() in _NO_AGENT:
                    raise Unsupported(f"No agent answers inside guest {uuid}, which would set the password.") from error
                raise

    def crash_dump(self, uuid: str) -> None:
        domain = self._awake(uuid)
        with explained(f"send guest {uuid} a non-maskable interrupt"):
            domain.handle.injectNMI()

    def _awake(self, uuid: str) -> OwnDomain:
        domain = self._domains.get(uuid)
        if domain.power_state() not in _AWAKE:
            raise GuestNotRunning(uuid)
        return domain
