# SPDX-License-Identifier: Apache-2.0
"""The network interfaces of a guest as devices: ports of the network service that are bound to this host.

A port is refused if the driver cannot plug ports of its type. Nothing is created on the host: libvirt plugs a port when
the guest starts.
"""

import re
from collections.abc import Iterable
from dataclasses import replace

from kilonova.compute.virt.libvirt.domain.device_description import (
    BridgeSource,
    HostDevice,
    MacvtapSource,
    Nic,
    PciSource,
)
from kilonova.compute.virt.libvirt.domain.guest_options import GuestOptions, shown
from kilonova.config.libvirt import LibvirtSettings
from kilonova.errors import UnsupportedGuest
from kilonova.model.image_values import canonical_vif_model
from kilonova.model.instance import GuestSpec
from kilonova.model.network_info import Vif, VifType, VnicType
from kilonova.records import dataclass

_DEFAULT_MODEL = "virtio"
#: The model whose queues and offloads can be set.
_VIRTIO = "virtio"
#: Maximum number of queues of a tap device in Linux.
_MOST_QUEUES = 256
#: Prefix of the bridges that Neutron's Linux bridge agent creates, and length of their names.
_BRIDGE_PREFIX, _BRIDGE_LENGTH = "brq", 14
_USERSPACE_DATAPATH = "netdev"
#: Prefix of user-defined device names; libvirt replaces other names by its own.
_ALIAS_PREFIX = "ua-"
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MAC = re.compile(r"[0-9a-f][02468ace](:[0-9a-f]{2}){5}", re.IGNORECASE)
_DEVICE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,14}")
_MACVTAP_MODES = ("bridge", "passthrough", "private", "vepa")
_VLANS = range(1, 4095)
_MTUS = range(68, 65536)


@dataclass(frozen=True, slots=True)
class CardStyle:
    """The kind of network cards that flavor and image choose for all interfaces of a guest.

    ``queues``: pairs of queues of each card; None for one pair. ``packed``: whether the queues are packed virtqueues.
    """

    model: str = _DEFAULT_MODEL
    queues: int | None = None
    packed: bool = False


def card_style(guest: GuestSpec) -> CardStyle:
    """Return the kind of network cards of a guest. Raises: UnsupportedGuest if flavor and image contradict each other.

    Whether the host supports the model is checked elsewhere.
    """
    options = GuestOptions(guest)
    model = canonical_vif_model(options.property("hw_vif_model") or _DEFAULT_MODEL)
    many, packed = options.agreed_flag("vif_multiqueue_enabled"), options.agreed_flag("virtio_packed_ring")
    if model != _VIRTIO:
        return CardStyle(model)
    return CardStyle(model, guest.vcpus if many and guest.vcpus > 1 else None, bool(packed))


def describe_vifs(vifs: Iterable[Vif], style: CardStyle, settings: LibvirtSettings) -> tuple[Nic | HostDevice, ...]:
    """Return the devices of all interfaces, in the order of ``vifs``. Raises: UnsupportedGuest naming the port."""
    return tuple(describe_vif(vif, style, settings) for vif in vifs)


def describe_vif(vif: Vif, style: CardStyle, settings: LibvirtSettings) -> Nic | HostDevice:
    """Return the device of an interface: a network card, or a whole SR-IOV card. Raises: UnsupportedGuest."""
    if _UUID.fullmatch(vif.port_id) is None:
        raise UnsupportedGuest(f"The port id {shown(vif.port_id)} is not a UUID.")
    if _MAC.fullmatch(vif.mac) is None:
        raise _refused(vif, f"has an invalid MAC address, {shown(vif.mac)}")
    match vif.vif_type, vif.vnic_type:
        case "ovs", VnicType.NORMAL:
            return _bridged(vif, _ovs_bridge(vif, settings), style, settings)
        case "bridge", VnicType.NORMAL:
            return _bridged(vif, BridgeSource(_kernel_bridge(vif)), style, settings)
        case "macvtap", VnicType.NORMAL | VnicType.MACVTAP:
            return _tapped(vif, _macvtap(vif), style, settings)
        case "hw_veb", VnicType.DIRECT:
            return Nic(mac=vif.mac, source=PciSource(_pci_device(vif), _vlan(vif)), model=None, alias=alias_of(vif))
        case "ovs", VnicType.REMOTE_MANAGED:
            _require_card(vif)
            return Nic(mac=vif.mac, source=PciSource(_pci_device(vif)), model=None, alias=alias_of(vif))
        case "hostdev_physical", VnicType.DIRECT_PHYSICAL:
            return replace(_pci_device(vif), alias=alias_of(vif))
        case VifType.BINDING_FAILED, _:
            raise UnsupportedGuest(
                f"Binding failed for port {vif.port_id}, please check neutron logs for more information."
            )
        case VifType.UNBOUND, _:
            raise _refused(vif, "is not bound to this host")
    kind = f"vif_type={shown(vif.vif_type)} and vnic_type={shown(vif.vnic_type)}"
    raise _refused(vif, f"has {kind}, which this host does not support")


def alias_of(vif: Vif) -> str:
    """Return the alias of an interface's device in libvirt, by which the driver finds the device again."""
    return f"{_ALIAS_PREFIX}{vif.port_id}"


def _bridged(vif: Vif, source: BridgeSource, style: CardStyle, settings: LibvirtSettings) -> Nic:
    """Return a network card whose tap device libvirt adds to a bridge.

    If the bridge has a datapath in user space, the card has no offloads: such a datapath does not complete the packets
    of a guest that leaves checksums and segmentation to the host.
    """
    mtu = vif.network.mtu
    if mtu is not None and mtu not in _MTUS:
        raise _refused(vif, f"is on a network with an impossible MTU, {shown(str(mtu))}")
    reads_raw_packets = vif.details.get("datapath_type") == _USERSPACE_DATAPATH
    nic = _tapped(vif, source, style, settings)
    return replace(nic, mtu=mtu, offloads=not (reads_raw_packets and style.model == _VIRTIO))


def _tapped(vif: Vif, source: BridgeSource | MacvtapSource, style: CardStyle, settings: LibvirtSettings) -> Nic:
    """Return a network card without an MTU: libvirt gives a macvtap device the MTU of the device below it."""
    return Nic(
        mac=vif.mac,
        source=source,
        model=style.model,
        alias=alias_of(vif),
        target=vif.device_name,
        queues=None if style.queues is None else min(style.queues, settings.max_queues or _MOST_QUEUES, _MOST_QUEUES),
        packed=style.packed,
    )


def _ovs_bridge(vif: Vif, settings: LibvirtSettings) -> BridgeSource:
    if vif.details.get("ovs_hybrid_plug"):
        raise _refused(vif, "needs iptables rules (ovs_hybrid_plug), which this host does not support")
    if vif.profile.get("pci_slot"):
        raise _refused(vif, "is offloaded to a network card, which this host does not support")
    return BridgeSource(_device_name(vif, "bridge_name", vif.network.bridge, settings.ovs_bridge), vif.port_id)


def _kernel_bridge(vif: Vif) -> str:
    default = f"{_BRIDGE_PREFIX}{vif.network.id}"[:_BRIDGE_LENGTH]
    return _device_name(vif, "bridge_name", vif.network.bridge, default)


def _macvtap(vif: Vif) -> MacvtapSource:
    mode = vif.details.get("macvtap_mode")
    if mode not in _MACVTAP_MODES:
        raise _refused(vif, f"has an unknown macvtap_mode, {shown(str(mode))}")
    if vif.details.get("vlan"):
        raise _refused(vif, "needs a VLAN device for macvtap, which this host does not create")
    return MacvtapSource(_device_name(vif, "macvtap_source", None, ""), str(mode))


def _device_name(vif: Vif, key: str, known: str | None, default: str) -> str:
    """Return the name of the host's device or bridge: the name in the details of the port, or ``default``."""
    name = str(known or vif.details.get(key) or default)
    if _DEVICE_NAME.fullmatch(name) is None:
        raise _refused(vif, f"has no usable {key}: {shown(name) or 'empty'}")
    return name


def _pci_device(vif: Vif) -> HostDevice:
    slot = str(vif.profile.get("pci_slot") or "")
    found = HostDevice.at(slot)
    if found is None:
        raise _refused(vif, f"has no PCI address in its binding profile (pci_slot={shown(slot)})")
    return found


def _require_card(vif: Vif) -> None:
    """Check that a remote-managed port names its virtual function as the computer that manages the card knows it.

    Without these keys nothing plugs the port there, and the guest would have no network. Raises: UnsupportedGuest.
    """
    profile = vif.profile
    number, mac = profile.get("vf_num"), profile.get("pf_mac_address")
    wrong = next(
        (
            key
            for key, is_right in (
                ("card_serial_number", bool(profile.get("card_serial_number"))),
                ("pf_mac_address", isinstance(mac, str) and _MAC.fullmatch(mac) is not None),
                ("vf_num", isinstance(number, int) and not isinstance(number, bool) and number >= 0),
            )
            if not is_right
        ),
        None,
    )
    if wrong is not None:
        raise _refused(vif, f"is remote-managed, but its binding profile has no usable {wrong}")


def _vlan(vif: Vif) -> int | None:
    given = vif.details.get("vlan")
    if given in (None, "", "0", 0):
        return None
    text = str(given)
    if not (text.isascii() and text.isdecimal() and len(text) <= 4 and int(text) in _VLANS):
        raise _refused(vif, f"has an impossible VLAN, {shown(text)}")
    return int(text)


def _refused(vif: Vif, why: str) -> UnsupportedGuest:
    return UnsupportedGuest(f"Port {vif.port_id} {why}.")
