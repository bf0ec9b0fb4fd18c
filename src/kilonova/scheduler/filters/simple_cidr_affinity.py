# SPDX-License-Identifier: Apache-2.0
"""SimpleCIDRAffinityFilter: hosts in the network of the address in a scheduler hint."""

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import ClassVar

import numpy as np

from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.host_table import BoolArray, HostTable
from kilonova.scheduler.reads import Reads, names

IP_HINT = "build_near_host_ip"
CIDR_HINT = "cidr"
_DEFAULT_CIDR = "/24"


@dataclass(frozen=True, slots=True)
class SimpleCIDRAffinityFilter:
    """Keep hosts in the network of the hints ``build_near_host_ip`` and ``cidr`` (default ``/24``).

    Without an address, every host passes. If the hints do not form a valid network, no host passes.

    Shapes: hosts.host_ips (H,) → (H,) bool.
    Source: spec SCHEDULER §3 #9.
    """

    run_once: ClassVar[bool] = True
    runs_on_rebuild: ClassVar[bool] = False
    reads: ClassVar[Reads] = Reads(hints=names(IP_HINT, CIDR_HINT))
    reason: str = "not in the network of build_near_host_ip"

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:
        address = next(iter(spec.hints.get(IP_HINT, ())), None)
        if not address:
            return hosts.all_hosts
        network = _network(address, next(iter(spec.hints.get(CIDR_HINT, ())), _DEFAULT_CIDR))
        if network is None:
            return np.zeros(len(hosts), dtype=np.bool_)
        return hosts.memo.get(
            (SimpleCIDRAffinityFilter, network),
            lambda: np.array([_contains(network, host_ip) for host_ip in hosts.host_ips], dtype=np.bool_),
        )


def _network(address: str, cidr: str) -> IPv4Network | IPv6Network | None:
    """Return the network of an address, or None if ``address`` or ``cidr`` is invalid.

    ``cidr``: prefix length or netmask; if empty, the network is the single address.
    """
    mask = cidr.removeprefix("/")
    try:
        if ":" in mask:
            mask = str(_prefix_length(IPv6Address(mask)))
        return ip_network(f"{address}/{mask}" if mask else address, strict=False)
    except ValueError:
        return None


def _prefix_length(mask: IPv6Address) -> int:
    """Return the prefix length of a netmask. Raises: ValueError, if the mask is not contiguous."""
    host_bits = int(mask) ^ (2**128 - 1)
    if host_bits & (host_bits + 1):
        raise ValueError("the netmask is not contiguous")
    return 128 - host_bits.bit_length()


def _contains(network: IPv4Network | IPv6Network, host_ip: str) -> bool:
    try:
        return ip_address(host_ip) in network
    except ValueError:
        return False
