# SPDX-License-Identifier: Apache-2.0
"""PCI devices: the pools of a host, and what a server asks for."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

PF = "type-PF"
VF = "type-VF"
STANDARD = "type-PCI"
VDPA = "vdpa"


class NumaPolicy(StrEnum):
    """How near a device has to be to the server's NUMA cells."""

    REQUIRED = "required"
    LEGACY = "legacy"
    PREFERRED = "preferred"
    SOCKET = "socket"


@dataclass(frozen=True, slots=True)
class PciPool:
    """Equal devices of a host. ``number`` is the pool's key on its host; ``tags``: sorted (name, value) pairs.

    ``addresses``: of all its devices, or of none: who decides where servers go counts devices and knows no addresses.

    ``numa_node`` None: the host does not know, or the device is equally near to all cells.
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

    @property
    def free(self) -> int:
        """Devices to be had; a pool may have lost devices that are still in use."""
        return max(0, self.total - self.used)

    @property
    def identity(self) -> tuple[str, str, int | None, str, tuple[tuple[str, str], ...]]:
        """What makes devices equal: devices of one host with one identity are one pool."""
        return self.vendor_id, self.product_id, self.numa_node, self.dev_type, self.tags

    def facts(self) -> Mapping[str, str]:
        """Return what a request may ask for, by name."""
        return {
            **dict(self.tags),
            "vendor_id": self.vendor_id,
            "product_id": self.product_id,
            "dev_type": self.dev_type,
        }


@dataclass(frozen=True, slots=True)
class PciRequest:
    """So many devices, each of which meets one of ``specs``: sorted (fact, wanted value) pairs."""

    alias: str
    count: int
    specs: tuple[tuple[tuple[str, str], ...], ...]
    numa_policy: NumaPolicy = NumaPolicy.LEGACY
