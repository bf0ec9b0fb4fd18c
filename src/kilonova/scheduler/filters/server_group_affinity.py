# SPDX-License-Identifier: Apache-2.0
"""ServerGroupAffinityFilter: the host of the other members of an affinity group."""

from typing import ClassVar

import numpy as np

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.host_table import BoolArray, HostTable
from kilonova.scheduler.reads import NOTHING, Reads


@dataclass(frozen=True, slots=True)
class ServerGroupAffinityFilter:
    """Keep the hosts with members of the request's affinity group. For the group's first member, every host passes.

    Shapes: rows of the group's hosts → (H,) bool.
    Source: spec SCHEDULER §3 #6, §9.
    """

    run_once: ClassVar[bool] = False
    runs_on_rebuild: ClassVar[bool] = False
    depends_on: ClassVar[DependsOn] = DependsOn.NAMES
    reads: ClassVar[Reads] = NOTHING
    reason: str = "holds no member of the server group"

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:
        group = spec.group
        if group is None or group.policy != "affinity":
            return hosts.all_hosts
        used = [host for host, members in group.hosts.items() if members > 0]
        if not used:
            return hosts.all_hosts
        rows = hosts.rows_of_host()
        passed = np.zeros(len(hosts), dtype=np.bool_)
        passed[[row for host in used for row in rows.get(host, ())]] = True
        return passed
