# SPDX-License-Identifier: Apache-2.0
"""SimpleCIDRAffinityFilter: hosts in the same network as the address in a scheduler hint."""

from ipaddress import ip_address
from typing import ClassVar

import numpy as np

from kilonova.model.address import Network, network_of
from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.host_table import BoolArray, HostTable
from kilonova.scheduler.reads import Reads, names

IP_HINT = "build_near_host_ip"
CIDR_HINT = "cidr"
_DEFAULT_CIDR = "/24"


@dataclass(frozen=True, slots=True)
class SimpleCIDRAffinityFilter:
    """Keep hosts in the network of the hints ``build_near_host_ip`` and ``cidr`` (default ``/24``).

    Without an address, every host passes. The two hints are concatenated; if the result is not a valid network, no host
    passes.

    Shapes: hosts.host_ips (H,) → (H,) bool.
    Source: spec SCHEDULER §3 #9.
    """

    run_once: ClassVar[bool] = True
    runs_on_rebuild: ClassVar[bool] = False
    depends_on: ClassVar[DependsOn] = DependsOn.SHARED
    reads: ClassVar[Reads] = Reads(hints=names(IP_HINT, CIDR_HINT))
    reason: str = "not in the network of build_near_host_ip"

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:
        address = next(iter(spec.hints.get(IP_HINT, ())), None)
        if not address:
            return hosts.all_hosts
        network = network_of(address + next(iter(spec.hints.get(CIDR_HINT, ())), _DEFAULT_CIDR))
        if network is None:
            return np.zeros(len(hosts), dtype=np.bool_)
        return hosts.memo.get(
            (SimpleCIDRAffinityFilter, network),
            lambda: np.array([_contains(network, host_ip) for host_ip in hosts.host_ips], dtype=np.bool_),
        )


def _contains(network: Network, host_ip: str) -> bool:
    try:
        return ip_address(host_ip) in network
    except ValueError:
        return False
