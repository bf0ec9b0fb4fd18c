# SPDX-License-Identifier: Apache-2.0
"""AcceleratorsFilter: hosts with accelerators, if the flavor has a device profile."""

from typing import ClassVar

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.aggregate_index import AggregateIndex
from kilonova.scheduler.reads import Reads, names


@dataclass(frozen=True, slots=True)
class AcceleratorsFilter:
    """Require the trait COMPUTE_ACCELERATORS for flavors with ``accel:device_profile``.

    Source: spec SCHEDULER §6 #7.
    """

    name: ClassVar[str] = "accelerators_filter"
    reason: ClassVar[str] = "has no accelerators"
    reads: ClassVar[Reads] = Reads(extra_specs=names("accel:device_profile"))

    def apply(self, spec: RequestSpec, aggregates: AggregateIndex) -> RequestSpec:  # noqa: ARG002
        return spec.requiring("COMPUTE_ACCELERATORS") if spec.flavor.extra_specs.get("accel:device_profile") else spec
