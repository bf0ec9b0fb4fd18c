# SPDX-License-Identifier: Apache-2.0
"""Network interfaces that are attached to libvirt guests, and detached from them.

A change concerns up to three configurations: that of the running domain, that for the domain's next start, and the
domain XML in the guest's folder. A configuration that is already in the wanted state is not changed, so a change that
a crash has interrupted can be repeated or reversed.
"""

from time import monotonic
from typing import Any

import libvirt

from kilonova.compute.virt.base import AgentStopsError
from kilonova.compute.virt.libvirt.connection import explained
from kilonova.compute.virt.libvirt.domain.attached_devices import find_device, placed_alike
from kilonova.compute.virt.libvirt.domain.device_xml import interface_xml
from kilonova.compute.virt.libvirt.domain.network_cards import alias_of, describe_vif
from kilonova.compute.virt.libvirt.domains import OwnDomain
from kilonova.compute.virt.libvirt.hypervisor import LibvirtHost
from kilonova.errors import DriverError
from kilonova.model.instance import PowerState
from kilonova.model.network_info import Vif
from kilonova.records import dataclass

_LIVE, _CONFIG = libvirt.VIR_DOMAIN_AFFECT_LIVE, libvirt.VIR_DOMAIN_AFFECT_CONFIG
_RUNNING, _INACTIVE = 0, libvirt.VIR_DOMAIN_XML_INACTIVE
#: Flag that selects the configuration to change → flag that selects the XML of the same configuration.
_XML_OF = {_LIVE: _RUNNING, _CONFIG: _INACTIVE}
_OTHER = {_LIVE: _CONFIG, _CONFIG: _LIVE}
_LOOK_S = 0.1
#: libvirt's errors if a guest is off, or has already been asked to release a device.
_OFF_OR_ASKED = frozenset(
    {libvirt.VIR_ERR_OPERATION_INVALID, libvirt.VIR_ERR_OPERATION_FAILED, libvirt.VIR_ERR_INTERNAL_ERROR}
)


@dataclass(frozen=True, slots=True, eq=False)
class Interfaces:
    """Attaches interfaces to a guest and detaches them, while the guest runs or is off."""

    host: LibvirtHost

    def attach_interface(self, uuid: str, vif: Vif) -> None:
        domain = self._changeable(uuid)
        device, alias = interface_xml(describe_vif(vif, domain.mark.cards, self.host.settings)), alias_of(vif)
        with explained(f"attach port {vif.port_id} to guest {uuid}"):
            was_there = _has(domain.handle, alias, _CONFIG)
            _attach(domain.handle, device, alias, _CONFIG)
            try:
                if domain.handle.isActive():
                    _attach(domain.handle, device, alias, _LIVE)
            except BaseException:
                if not was_there:
                    _detach(domain.handle, alias, _CONFIG)
                raise
        self._note(domain)

    def detach_interface(self, uuid: str, vif: Vif) -> None:
        domain, alias = self._changeable(uuid), alias_of(vif)
        with explained(f"detach port {vif.port_id} from guest {uuid}"):
            self._detach_live(domain, alias, vif)
            _detach(domain.handle, alias, _CONFIG)
        self._note(domain)

    def _changeable(self, uuid: str) -> OwnDomain:
        """Return a guest whose interfaces can be changed. Raises: GuestMissing, DriverError.

        A suspended or rescued guest is refused: the saved memory of a suspended guest contains its interfaces, and the
        end of a rescue restores the interfaces from before the rescue.
        """
        domain = self.host.domains.get(uuid)
        if domain.power_state() is PowerState.SUSPENDED:
            raise DriverError(f"Guest {uuid} is suspended: its interfaces cannot be changed.")
        if domain.mark.rescue_image is not None:
            raise DriverError(f"Guest {uuid} is rescued: its interfaces cannot be changed.")
        return domain

    def _detach_live(self, domain: OwnDomain, alias: str, vif: Vif) -> None:
        """Ask a running guest, repeatedly if needed, to release an interface. Raises: DriverError, AgentStopsError."""
        for _ in range(self.host.settings.device_detach_attempts):
            if not _is_attached_live(domain.handle, alias):
                return
            if domain.power_state() is PowerState.PAUSED:
                raise DriverError(f"Guest {domain.uuid} is paused and cannot release port {vif.port_id}.")
            _detach(domain.handle, alias, _LIVE)
            until = monotonic() + self.host.settings.device_detach_timeout_s
            while _is_attached_live(domain.handle, alias) and monotonic() < until:
                if self.host.closing.wait(_LOOK_S):
                    raise AgentStopsError
        if _is_attached_live(domain.handle, alias):
            raise DriverError(f"Guest {domain.uuid} does not release port {vif.port_id}.")

    def _note(self, domain: OwnDomain) -> None:
        """Store the domain XML with the present interfaces and PCI addresses, for later definitions of the domain."""
        with explained(f"describe guest {domain.uuid}"):
            xml = domain.handle.XMLDesc(_INACTIVE)
        self.host.note(domain.uuid, xml)


def _has(handle: Any, alias: str, which: int) -> bool:
    return find_device(handle.XMLDesc(_XML_OF[which]), alias) is not None


def _is_attached_live(handle: Any, alias: str) -> bool:
    return bool(handle.isActive()) and _has(handle, alias, _LIVE)


def _attach(handle: Any, device: str, alias: str, which: int) -> None:
    """Add a device to one configuration, unless this configuration already has it."""
    here = handle.XMLDesc(_XML_OF[which])
    if find_device(here, alias) is None:
        other = handle.XMLDesc(_XML_OF[_OTHER[which]])
        handle.attachDeviceFlags(placed_alike(device, alias, other, here), which)


def _detach(handle: Any, alias: str, which: int) -> None:
    """Remove a device from one configuration; a running guest is asked to release it. No error if absent."""
    device = find_device(handle.XMLDesc(_XML_OF[which]), alias)
    if device is None:
        return
    try:
        handle.detachDeviceFlags(device, which)
    except libvirt.libvirtError as error:
        code = error.get_error_code()
        if code != libvirt.VIR_ERR_DEVICE_MISSING and not (which == _LIVE and code in _OFF_OR_ASKED):
            raise
