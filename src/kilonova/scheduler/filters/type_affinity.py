# SPDX-License-Identifier: Apache-2.0
"""TypeAffinityFilter: hosts that run only instances of the requested flavor."""

from typing import ClassVar

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.host_table import BoolArray, HostTable
from kilonova.scheduler.reads import NOTHING, Reads


@dataclass(frozen=True, slots=True)
class TypeAffinityFilter:
    """Keep hosts without instances of other flavors, so that each host runs instances of a single flavor.

    Flavors are compared by id. An instance is counted with the id of its flavor even after the flavor was deleted.

    Shapes: hosts.guests → (H,) bool.
    Source: spec SCHEDULER §4.
    """

    run_once: ClassVar[bool] = False
    only_where_placed: ClassVar[bool] = True
    runs_on_rebuild: ClassVar[bool] = False
    depends_on: ClassVar[DependsOn] = DependsOn.ROWS
    reads: ClassVar[Reads] = NOTHING
    reason: str = "runs instances of another flavor"

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:
        alone: BoolArray = hosts.guests.of_other_flavors(spec.flavor.flavor_id) == 0
        return alone
