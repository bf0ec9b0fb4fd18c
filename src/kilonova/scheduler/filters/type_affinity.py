# SPDX-License-Identifier: Apache-2.0
"""Keep hosts that run one flavor only, and that one."""

from dataclasses import dataclass
from typing import ClassVar

from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.host_table import BoolArray, HostTable
from kilonova.scheduler.reads import NOTHING, Reads


@dataclass(frozen=True, slots=True)
class TypeAffinityFilter:
    """Keep hosts without an instance of another flavor, so that each host holds at most one.

    Flavors are told apart by their id. An instance counts for the flavor it has, also after the flavor was deleted.

    Shapes: hosts.guests → (H,) bool.
    Source: spec SCHEDULER §4.
    """

    run_once: ClassVar[bool] = False
    only_where_placed: ClassVar[bool] = True
    runs_on_rebuild: ClassVar[bool] = False
    reads: ClassVar[Reads] = NOTHING
    reason: str = "runs instances of another flavor"

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:
        alone: BoolArray = hosts.guests.of_other_flavors(spec.flavor.flavor_id) == 0
        return alone
