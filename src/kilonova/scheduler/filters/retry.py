# SPDX-License-Identifier: Apache-2.0
"""Leave out hosts on which the server was tried before."""

from dataclasses import dataclass
from typing import ClassVar

from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.host_table import BoolArray, HostTable
from kilonova.scheduler.reads import NOTHING, Reads


@dataclass(frozen=True, slots=True)
class RetryFilter:
    """Leave out the hypervisors on which a build of this request failed.

    The engine leaves them out in any case, before all filters; this is for configurations of old that name the filter.

    Shapes: rows of the tried hypervisors → (H,) bool.
    Source: spec SCHEDULER §4.
    """

    run_once: ClassVar[bool] = False
    only_where_placed: ClassVar[bool] = True
    runs_on_rebuild: ClassVar[bool] = False
    reads: ClassVar[Reads] = NOTHING
    reason: str = "the server was tried there before"

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:
        return hosts.other_than(spec.tried)
