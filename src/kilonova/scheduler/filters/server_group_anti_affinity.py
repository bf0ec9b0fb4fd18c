# SPDX-License-Identifier: Apache-2.0
"""ServerGroupAntiAffinityFilter: hosts that may run one more member of an anti-affinity group."""

from typing import ClassVar

import numpy as np

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.host_table import BoolArray, HostTable
from kilonova.scheduler.reads import NOTHING, Reads


@dataclass(frozen=True, slots=True)
class ServerGroupAntiAffinityFilter:
    """Keep hosts with fewer members of the request's anti-affinity group than ``max_server_per_host``.

    If the request moves one existing server, the server's current host always passes, so that the server can return.

    Shapes: rows of the group's hosts → (H,) bool.
    Source: spec SCHEDULER §3 #5, §9.
    """

    run_once: ClassVar[bool] = False
    only_where_placed: ClassVar[bool] = True
    runs_on_rebuild: ClassVar[bool] = False
    depends_on: ClassVar[DependsOn] = DependsOn.NAMES
    reads: ClassVar[Reads] = NOTHING
    reason: str = "has reached max_server_per_host of the server group"

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:
        group = spec.group
        if group is None or group.policy != "anti-affinity":
            return hosts.all_hosts
        limit = group.max_server_per_host
        if len(hosts) < len(group.hosts):
            passed = np.array([group.hosts.get(host, 0) < limit for host in hosts.hosts], dtype=np.bool_)
        else:
            rows = hosts.rows_of_host()
            full = [row for host, members in group.hosts.items() if members >= limit for row in rows.get(host, ())]
            passed = np.ones(len(hosts), dtype=np.bool_)
            passed[full] = False
        if len(spec.instance_uuids) == 1 and (home := hosts.instance_rows.get(spec.instance_uuids[0])) is not None:
            passed[home] = True
        return passed
