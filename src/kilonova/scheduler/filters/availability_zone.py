# SPDX-License-Identifier: Apache-2.0
"""AvailabilityZoneFilter: hosts of the requested availability zone."""

from typing import ClassVar, Self

from kilonova.model.aggregate import ZONE_KEY
from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.aggregate_rules import in_any, split
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.host_table import BoolArray, HostTable
from kilonova.scheduler.reads import Reads, names
from kilonova.scheduler.settings import SchedulerConfig


@dataclass(frozen=True, slots=True)
class AvailabilityZoneFilter:
    """Keep hosts in an aggregate of the requested zone. Hosts without a zone belong to the default zone.

    If the request names no zone, every host passes. Comma lists of zones are split. A request for the default zone is
    confined to this zone, in contrast to the request filter for zones, which adds no condition in this case.

    Shapes: one test per aggregate (A,), combined by OR for each host → (H,) bool.
    Source: spec SCHEDULER §4, §14.3.
    """

    run_once: ClassVar[bool] = True
    runs_on_rebuild: ClassVar[bool] = False
    depends_on: ClassVar[DependsOn] = DependsOn.SHARED
    reads: ClassVar[Reads] = Reads(metadata=names(ZONE_KEY))
    default_zone: str = "nova"
    reason: str = "not in the requested availability zone"

    @classmethod
    def configured(cls, config: SchedulerConfig) -> Self:
        return cls(default_zone=config.default_availability_zone)

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:
        wanted = spec.availability_zone
        if not wanted:
            return hosts.all_hosts
        zones = [aggregate.metadata.get(ZONE_KEY) for aggregate in hosts.aggregates.aggregates]
        passed = in_any(hosts, [zone is not None and wanted in split(zone) for zone in zones])
        if wanted == self.default_zone:
            passed = passed | ~in_any(hosts, [zone is not None for zone in zones])
        return passed
