# SPDX-License-Identifier: Apache-2.0
"""ServerGroupSoftAffinityWeigher: prefers the hosts of other members of the server group."""

from typing import ClassVar

import numpy as np

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.host_table import FloatArray, HostTable, Rows, pick
from kilonova.scheduler.reads import Reads, names
from kilonova.scheduler.weighers.base import ColumnWeigher


@dataclass(frozen=True, slots=True)
class ServerGroupSoftAffinityWeigher(ColumnWeigher):
    """Prefer hosts with many members of a soft-affinity group. Shapes: (H,) → (N,). Source: spec SCHEDULER §5 #7."""

    option: ClassVar[str] = "soft_affinity_weight_multiplier"
    depends_on: ClassVar[DependsOn] = DependsOn.NAMES
    reads: ClassVar[Reads] = Reads(metadata=names("soft_affinity_weight_multiplier"))

    def weigh(self, hosts: HostTable, spec: RequestSpec, rows: Rows) -> FloatArray | None:
        return members_on(hosts, spec, rows, "soft-affinity")


def members_on(hosts: HostTable, spec: RequestSpec, rows: Rows, policy: str) -> FloatArray | None:
    """Return the number of members of the request's server group on each host. Shapes: → (N,).

    None if the request has no group, or if the group has a policy other than ``policy`` or no members.
    """
    group = spec.group
    if group is None or group.policy != policy or not group.hosts:
        return None
    if len(hosts) < len(group.hosts):
        return pick(np.array([group.hosts.get(host, 0) for host in hosts.hosts], dtype=np.float64), rows)
    members = np.zeros(len(hosts))
    rows_of = hosts.rows_of_host()
    for host, count in group.hosts.items():
        members[list(rows_of.get(host, ()))] = count
    return pick(members, rows)
