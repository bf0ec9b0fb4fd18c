# SPDX-License-Identifier: Apache-2.0
"""Network interfaces of a server as the network service describes them (VIFs), with their networks and addresses.

The control plane caches the interfaces of each server (``db/instance_networks.py``). Hosts get them in the description
of a guest. Config drives and the metadata service show them to the guest. All values are those of Neutron's ports,
networks and subnets.
"""

from collections.abc import Iterator, Mapping
from dataclasses import field
from enum import StrEnum

from kilonova.records import dataclass


class VifType(StrEnum):
    """Values of ``binding:vif_type`` with a special meaning; other values name the mechanism that plugs the port."""

    UNBOUND = "unbound"
    BINDING_FAILED = "binding_failed"


class VnicType(StrEnum):
    """Values of ``binding:vnic_type``."""

    NORMAL = "normal"
    DIRECT = "direct"
    DIRECT_PHYSICAL = "direct-physical"
    MACVTAP = "macvtap"
    BAREMETAL = "baremetal"
    VIRTIO_FORWARDER = "virtio-forwarder"
    SMART_NIC = "smart-nic"
    VDPA = "vdpa"
    ACCELERATOR_DIRECT = "accelerator-direct"
    ACCELERATOR_DIRECT_PHYSICAL = "accelerator-direct-physical"
    REMOTE_MANAGED = "remote-managed"


#: Neutron's agents expect a device named "tap" and the first 11 characters of the port id. Linux allows 15 characters.
_DEVICE_NAME_LENGTH = 14


@dataclass(frozen=True, slots=True)
class FixedAddress:
    """An address of a port, with the floating addresses that are translated to it."""

    address: str
    floating: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Route:
    """A static route of a subnet. ``destination``: a network in CIDR notation; ``next_hop``: address of the router."""

    destination: str
    next_hop: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VifSubnet:
    """A subnet of a port, with the port's addresses in it.

    ``version``: 4 or 6. ``dhcp_server``: address of the DHCP server; None if the subnet has none or its address is
    unknown. ``ipv6_address_mode``: ``slaac``, ``dhcpv6-stateful``, ``dhcpv6-stateless`` or None.
    """

    id: str
    cidr: str
    version: int
    gateway: str | None = None
    has_dhcp: bool = True
    dhcp_server: str | None = None
    dns: tuple[str, ...] = ()
    routes: tuple[Route, ...] = ()
    ipv6_address_mode: str | None = None
    addresses: tuple[FixedAddress, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VifNetwork:
    """The network of a port. ``label``: its name, under which the API shows addresses. ``mtu``: in bytes.

    ``physical_network``: the physical network of a provider network. ``bridge``: the integration bridge that
    ``binding:vif_details`` names.
    """

    id: str
    label: str
    mtu: int | None = None
    project_id: str = ""
    physical_network: str | None = None
    bridge: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Vif:
    """A port that is attached to a server.

    ``created``: Kilonova created the port for the server, and deletes the port with the server; a port of the user is
    only released. ``active``: the network service reports the port as plugged. ``details``: ``binding:vif_details``;
    ``profile``: ``binding:profile``. ``security_groups``: names of the port's security groups. ``tag``: device tag that
    the user gave to the interface. ``resources``: what the port uses on its host: resource provider → class → amount.
    ``profile_before``: keys of the profile that described the host which the server left in its last move.
    """

    port_id: str
    mac: str
    network: VifNetwork
    subnets: tuple[VifSubnet, ...] = ()
    vif_type: str = VifType.UNBOUND
    vnic_type: str = VnicType.NORMAL
    details: Mapping[str, object] = field(default_factory=dict)
    profile: Mapping[str, object] = field(default_factory=dict)
    security_groups: tuple[str, ...] = ()
    active: bool = False
    created: bool = False
    tag: str | None = None
    trunk_parent: bool = False
    resources: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    profile_before: Mapping[str, object] = field(default_factory=dict)

    @property
    def device_name(self) -> str:
        """Name of the tap device on the host."""
        return f"tap{self.port_id}"[:_DEVICE_NAME_LENGTH]

    @property
    def addresses(self) -> Iterator[tuple[VifSubnet, FixedAddress]]:
        """All addresses of the port, each with its subnet."""
        return ((subnet, address) for subnet in self.subnets for address in subnet.addresses)


#: All interfaces of a server, in the order in which the guest sees them.
NetworkInfo = tuple[Vif, ...]


def find_vif(info: NetworkInfo, port_id: str) -> Vif | None:
    """Return the interface with a port id; None if the server has no such interface."""
    return next((vif for vif in info if vif.port_id == port_id), None)
