# SPDX-License-Identifier: Apache-2.0
"""AllHostsFilter: every host."""

from typing import ClassVar

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.host_table import BoolArray, HostTable
from kilonova.scheduler.reads import NOTHING, Reads


@dataclass(frozen=True, slots=True)
class AllHostsFilter:
    """Keep every host, without any condition. Source: spec SCHEDULER §3 #1."""

    run_once: ClassVar[bool] = True
    runs_on_rebuild: ClassVar[bool] = False
    depends_on: ClassVar[DependsOn] = DependsOn.SHARED
    reads: ClassVar[Reads] = NOTHING
    reason: str = "never"

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:  # noqa: ARG002
        return hosts.all_hosts
