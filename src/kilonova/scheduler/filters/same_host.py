# SPDX-License-Identifier: Apache-2.0
"""SameHostFilter: hosts that run at least one of the instances in a scheduler hint."""

from typing import ClassVar

import numpy as np

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.host_table import BoolArray, HostTable
from kilonova.scheduler.reads import Reads, names

HINT = "same_host"


@dataclass(frozen=True, slots=True)
class SameHostFilter:
    """Keep hosts that run at least one of the instances in the hint ``same_host``; unknown uuids match no host.

    If the hint is empty, every host passes.

    Shapes: rows of the instances → (H,) bool.
    Source: spec SCHEDULER §3 #8.
    """

    run_once: ClassVar[bool] = True
    runs_on_rebuild: ClassVar[bool] = False
    depends_on: ClassVar[DependsOn] = DependsOn.NAMES
    reads: ClassVar[Reads] = Reads(hints=names(HINT))
    reason: str = "runs no server in the hint same_host"

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:
        if spec.hints.get(HINT, ()) in {(), ("",)}:
            return hosts.all_hosts
        sought = spec.hinted_instances(HINT)
        passed = np.zeros(len(hosts), dtype=np.bool_)
        passed[[hosts.instance_rows[uuid] for uuid in sought if uuid in hosts.instance_rows]] = True
        return passed
