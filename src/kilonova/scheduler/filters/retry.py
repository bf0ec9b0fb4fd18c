# SPDX-License-Identifier: Apache-2.0
"""RetryFilter: hosts on which no build of this request failed."""

from typing import ClassVar

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.host_table import BoolArray, HostTable
from kilonova.scheduler.reads import NOTHING, Reads


@dataclass(frozen=True, slots=True)
class RetryFilter:
    """Exclude the nodes on which a build of this request failed.

    The filter is redundant, because the engine excludes these nodes before it runs the filters; it exists for old
    configurations that name it.

    Shapes: rows of the tried nodes → (H,) bool.
    Source: spec SCHEDULER §4.
    """

    run_once: ClassVar[bool] = False
    only_where_placed: ClassVar[bool] = True
    runs_on_rebuild: ClassVar[bool] = False
    depends_on: ClassVar[DependsOn] = DependsOn.NAMES
    reads: ClassVar[Reads] = NOTHING
    reason: str = "a build of the server failed on this host"

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:
        return hosts.other_than(spec.tried)
