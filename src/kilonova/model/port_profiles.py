# SPDX-License-Identifier: Apache-2.0
"""What a host gives to the ports of a server, as keys of their ``binding:profile``."""

from collections.abc import Iterable, Mapping

from kilonova.model.guest_devices import GuestDevice
from kilonova.model.network_info import VnicType
from kilonova.model.request_spec import RequestedNetwork

#: Port id → keys of ``binding:profile`` that depend on the host. Ports without such keys are left out.
PortProfiles = Mapping[str, Mapping[str, object]]
NO_PROFILES: PortProfiles = {}
ALLOCATION, NETWORK = "allocation", "physical_network"


#: VNIC types of ports that get a PCI device of the host.
PCI_VNIC_TYPES = frozenset(
    {
        VnicType.DIRECT,
        VnicType.DIRECT_PHYSICAL,
        VnicType.MACVTAP,
        VnicType.REMOTE_MANAGED,
        VnicType.VDPA,
        VnicType.VIRTIO_FORWARDER,
    }
)


def profiles_on(networks: Iterable[RequestedNetwork], providers: Mapping[str, str]) -> dict[str, dict[str, object]]:
    """Return the profiles of the ports on a host. ``providers``: request group → uuid of its resource provider.

    ``allocation`` names the provider of each group; if the port uses the format without groups, it is the only
    provider's uuid. The PCI device of a port is added by :func:`with_devices`, when the claim has chosen it.
    """
    profiles: dict[str, dict[str, object]] = {}
    for network in networks:
        given = {group.suffix: providers[group.suffix] for group in network.groups if group.suffix in providers}
        if given:
            profiles[network.port_id] = {ALLOCATION: given.get(network.port_id, given)}
        if network.port_id and network.vnic_type in PCI_VNIC_TYPES:
            profiles.setdefault(network.port_id, {})[NETWORK] = network.physical_network
    return profiles


def needs_devices(profiles: PortProfiles) -> bool:
    """Tell whether ports get PCI devices."""
    return any(NETWORK in profile for profile in profiles.values())


def with_devices(profiles: PortProfiles, devices: Mapping[str, GuestDevice]) -> PortProfiles:
    """Return the profiles with the PCI devices of the ports. ``devices``: port id → device."""
    return {
        port_id: profile if (device := devices.get(port_id)) is None else {**profile, **_of_device(device)}
        for port_id, profile in profiles.items()
    }


def _of_device(device: GuestDevice) -> dict[str, object]:
    """Return the keys that describe a device; facts that the host does not know are left out."""
    card = device.card
    known: dict[str, object | None] = {
        "card_serial_number": card.card_serial_number,
        "pf_mac_address": card.pf_mac_address,
        "vf_num": card.vf_num,
        "device_mac_address": card.mac_address,
    }
    return {
        "pci_slot": device.address,
        "pci_vendor_info": f"{device.vendor_id}:{device.product_id}",
        **{key: value for key, value in known.items() if value is not None},
    }
