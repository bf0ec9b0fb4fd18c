# SPDX-License-Identifier: Apache-2.0
"""DifferentHostFilter: hosts that run none of the instances in a scheduler hint."""

from typing import ClassVar

import numpy as np

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.host_table import BoolArray, HostTable
from kilonova.scheduler.reads import Reads, names

HINT = "different_host"


@dataclass(frozen=True, slots=True)
class DifferentHostFilter:
    """Keep hosts that run none of the instances in the hint ``different_host``; unknown uuids are ignored.

    Shapes: rows of the instances → (H,) bool.
    Source: spec SCHEDULER §3 #7.
    """

    run_once: ClassVar[bool] = True
    runs_on_rebuild: ClassVar[bool] = False
    depends_on: ClassVar[DependsOn] = DependsOn.NAMES
    reads: ClassVar[Reads] = Reads(hints=names(HINT))
    reason: str = "runs a server in the hint different_host"

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:
        shunned = spec.hinted_instances(HINT)
        if not shunned:
            return hosts.all_hosts
        passed = np.ones(len(hosts), dtype=np.bool_)
        passed[[hosts.instance_rows[uuid] for uuid in shunned if uuid in hosts.instance_rows]] = False
        return passed
