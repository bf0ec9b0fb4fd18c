# SPDX-License-Identifier: Apache-2.0
"""The error of a request for which no host was found. Users see the text of the error as the fault of their servers."""

from kilonova.errors import NoValidHost
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.decision import Decision
from kilonova.scheduler.filters.availability_zone import AvailabilityZoneFilter
from kilonova.scheduler.request_filters.map_az_to_placement_aggregate import MapAzToPlacementAggregate

_CHOICES_OF_HOST = ("force_hosts", "requested_destination")
_OF_ZONES = (MapAzToPlacementAggregate.name, AvailabilityZoneFilter.__name__)


def no_valid_host(decision: Decision, spec: RequestSpec, index: int, count: int) -> NoValidHost:
    """Return the error for server ``index`` of the ``count`` servers of a request. Its text has no host names."""
    of_many = f" for server {index + 1} of {count}" if count > 1 else ""
    if decision.ranked:
        reasons = "The best hosts cannot provide the NUMA cells or PCI devices that the flavor requests."
    else:
        reasons = f"{_of_requested_host(decision, spec)}{decision.summary() or 'There are no hosts.'}"
    return NoValidHost(
        decision.refusal or f"No valid host was found{of_many}. {reasons}",
        steps=[(step.rule, step.reason, step.hosts_in, step.hosts_out) for step in decision.steps],
    )


def _of_requested_host(decision: Decision, spec: RequestSpec) -> str:
    """Return a sentence on the rule that rejected the one host of the request; "" if the request names no host."""
    rules = [step.rule for step in decision.steps]
    chosen = next((rules.index(rule) for rule in _CHOICES_OF_HOST if rule in rules), None)
    if chosen is None:
        return ""
    rejecting = next((step for step in decision.steps[chosen + 1 :] if step.removed and not step.hosts_out), None)
    if rejecting is None:
        return ""
    if rejecting.rule in _OF_ZONES:
        zone = spec.availability_zone
        return (
            f"The requested host is in no aggregate with availability zone {zone}, as requests for this zone need "
            "while there is one; add the host to it, or name the host without a zone. "
        )
    return f"The requested host was rejected: {rejecting.reason.removesuffix('.')}. "
