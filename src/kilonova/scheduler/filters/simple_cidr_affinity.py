# SPDX-License-Identifier: Apache-2.0
"""Keep hosts near an address."""

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import ClassVar

import numpy as np

from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.host_table import BoolArray, HostTable

IP_HINT = "build_near_host_ip"
CIDR_HINT = "cidr"
_DEFAULT_CIDR = "/24"


@dataclass(frozen=True, slots=True)
class SimpleCIDRAffinityFilter:
    """Keep hosts in the network of the hints ``build_near_host_ip`` and ``cidr`` (``/24`` if not given).

    Without an address every host passes, with hints that make no network none does.

    Shapes: hosts.host_ips (H,) → (H,) bool.
    Source: spec SCHEDULER §3 #9.
    """

    run_once: ClassVar[bool] = True
    runs_on_rebuild: ClassVar[bool] = False
    reason: str = "not in the network of build_near_host_ip"

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:
        address = next(iter(spec.hints.get(IP_HINT, ())), None)
        if address is None:
            return hosts.everyone
        cidr = next(iter(spec.hints.get(CIDR_HINT, ())), _DEFAULT_CIDR)
        try:
            network = ip_network(f"{address}/{cidr.lstrip('/')}", strict=False)
        except ValueError:
            return np.zeros(len(hosts), dtype=np.bool_)
        return hosts.memo.get(
            (SimpleCIDRAffinityFilter, network),
            lambda: np.array([_contains(network, host_ip) for host_ip in hosts.host_ips], dtype=np.bool_),
        )


def _contains(network: IPv4Network | IPv6Network, host_ip: str) -> bool:
    try:
        return ip_address(host_ip) in network
    except ValueError:
        return False
