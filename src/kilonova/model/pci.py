# SPDX-License-Identifier: Apache-2.0
"""PCI devices: the pools of a host, and the devices that a server requests."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from kilonova.records import dataclass

PF = "type-PF"
VF = "type-VF"
STANDARD = "type-PCI"
VDPA = "vdpa"


class NumaPolicy(StrEnum):
    """NUMA affinity required between a device and the server's cells."""

    REQUIRED = "required"
    LEGACY = "legacy"
    PREFERRED = "preferred"
    SOCKET = "socket"


@dataclass(frozen=True, slots=True, kw_only=True)
class CardFacts:
    """What a host knows about a function of a network card, and Nova writes to the profile of its port.

    ``card_serial_number``: of the card. ``pf_mac_address``, ``vf_num``: for a virtual function, the MAC address of its
    physical function, and its number there. ``mac_address``: of a physical function. None: not known.
    """

    card_serial_number: str | None = None
    pf_mac_address: str | None = None
    vf_num: int | None = None
    mac_address: str | None = None


#: Facts about a device that is no function of a network card, or of whose card nothing is known.
NO_CARD = CardFacts()


@dataclass(frozen=True, slots=True)
class PciPool:
    """A pool of equal PCI devices on a host.

    ``number``: the pool's key on its host. ``tags``: sorted (name, value) pairs.
    ``addresses``: addresses of all devices of the pool; empty in the scheduler, which only counts devices.
    ``numa_node``: None if the host does not know the node, or if the devices are equally near to all NUMA cells.
    ``cards``: (address, facts) pairs of the devices that are functions of network cards; empty in the scheduler.
    """

    number: int
    vendor_id: str
    product_id: str
    total: int
    numa_node: int | None = None
    dev_type: str = STANDARD
    tags: tuple[tuple[str, str], ...] = ()
    used: int = 0
    addresses: tuple[str, ...] = ()
    cards: tuple[tuple[str, CardFacts], ...] = ()

    @property
    def free(self) -> int:
        """Number of free devices, at least 0: ``used`` may exceed ``total`` after devices in use were removed."""
        return max(0, self.total - self.used)

    @property
    def identity(self) -> tuple[str, str, int | None, str, tuple[tuple[str, str], ...]]:
        """Attributes that all devices of a pool have in common. All devices of a host that share them form one pool."""
        return self.vendor_id, self.product_id, self.numa_node, self.dev_type, self.tags

    def facts(self) -> Mapping[str, str]:
        """Return the attributes that a PCI request can match, by name."""
        return {
            **dict(self.tags),
            "vendor_id": self.vendor_id,
            "product_id": self.product_id,
            "dev_type": self.dev_type,
        }


@dataclass(frozen=True, slots=True)
class PciRequest:
    """A request for ``count`` devices. Each device must match one of ``specs``: sorted (attribute, value) pairs.

    ``port_id``: the port that gets the device; "" for a device that the flavor requests.
    """

    alias: str
    count: int
    specs: tuple[tuple[tuple[str, str], ...], ...]
    numa_policy: NumaPolicy = NumaPolicy.LEGACY
    port_id: str = field(default="", compare=False)
