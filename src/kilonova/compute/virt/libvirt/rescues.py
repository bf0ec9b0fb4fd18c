# SPDX-License-Identifier: Apache-2.0
"""Rescues, password changes and crash dumps of libvirt guests."""

from dataclasses import replace

import libvirt

from kilonova.compute.virt.abilities import Rescue
from kilonova.compute.virt.base import ShutdownTimeout
from kilonova.compute.virt.libvirt.connection import explained
from kilonova.compute.virt.libvirt.domains import OwnDomain
from kilonova.compute.virt.libvirt.hypervisor import LibvirtHost
from kilonova.compute.virt.libvirt.power import Power
from kilonova.compute.virt.libvirt.rescued import from_own_disk
from kilonova.errors import DriverError, GuestNotRunning, Unsupported
from kilonova.model.instance import GuestSpec, PowerState
from kilonova.records import dataclass

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


@dataclass(frozen=True, slots=True, eq=False)
class Rescues:
    """Boots a guest from a rescue image or from its own disk again; sets passwords and triggers crash dumps."""

    host: LibvirtHost
    power: Power

    def rescue(self, guest: GuestSpec, rescue: Rescue, timeout: ShutdownTimeout | None = None) -> None:
        uuid = guest.uuid
        with self.host.changes.ordered(uuid, PowerState.RUNNING):
            domain = self.host.domains.get(uuid)
            if domain.mark.rescue_image == rescue.image_ref and domain.power_state() is PowerState.RUNNING:
                return
            if rescue.image is None:
                raise DriverError("The host has no access to the rescue image.")
            runs = domain.power_state() is PowerState.RUNNING
            self.power.stop_domain(domain, timeout)
            mark = replace(from_own_disk(self.host, domain).mark, rescue_image=rescue.image_ref)
            try:
                disks = (*self.host.disks.make_rescue(guest, rescue.image), *self.host.disks.present(uuid))
                xml = self.host.described(guest, disks, mark, rescue=rescue.image_properties)
                self.host.domains.define(xml, mark).power_on()
            except BaseException:
                back = from_own_disk(self.host, self.host.domains.get(uuid))
                if runs:
                    back.power_on()
                raise

    def unrescue(self, uuid: str) -> None:
        with self.host.changes.ordered(uuid, PowerState.RUNNING):
            domain = self.host.domains.get(uuid)
            if domain.mark.rescue_image is not None:
                self.power.stop_domain(domain, None)
            self.power.start_domain(domain)

    def set_admin_password(self, uuid: str, admin_password: str) -> None:
        domain = self._awake(uuid)
        with explained(f"set the password in guest {uuid}"):
            try:
                domain.handle.setUserPassword(domain.mark.administrator, admin_password, 0)
            except libvirt.libvirtError as error:
                if error.get_error_code() in _NO_AGENT:
                    raise Unsupported(f"No agent inside guest {uuid} can set its password.") from error
                raise

    def crash_dump(self, uuid: str) -> None:
        domain = self._awake(uuid)
        with explained(f"send guest {uuid} a non-maskable interrupt"):
            domain.handle.injectNMI()

    def _awake(self, uuid: str) -> OwnDomain:
        domain = self.host.domains.get(uuid)
        if domain.power_state() not in _AWAKE:
            raise GuestNotRunning(uuid)
        return domain
