# SPDX-License-Identifier: Apache-2.0
"""Texts of the error that becomes the fault of servers without a host."""

from dataclasses import replace

import numpy as np
import pytest

from kilonova.claims.no_valid_host import no_valid_host
from kilonova.model.flavor import Flavor
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.decision import Decision, RuleCount

SPEC = RequestSpec(flavor=Flavor("1", "one", memory_mib=1, vcpus=1, root_gib=1), project_id="p", user_id="u")
CHOICE = RuleCount("force_hosts", "not the forced host", 3, 1)
LONGEST = 255  # characters of a stored fault


def text_of(*steps: RuleCount, spec: RequestSpec = SPEC, index: int = 0, count: int = 1) -> str:
    return no_valid_host(Decision((), steps, np.zeros(3, np.uint8), 0), spec, index, count).message


def test_without_a_requested_host_only_the_funnel_is_told() -> None:
    steps = RuleCount("RamFilter", "no memory", 3, 1), RuleCount("ComputeFilter", "down", 1, 0)
    funnel = "RamFilter: 2 of 3 hosts, ComputeFilter: 1 of 1 hosts"
    assert text_of(*steps) == f"No valid host was found. {funnel}"
    assert text_of(*steps, index=1, count=5) == f"No valid host was found for server 2 of 5. {funnel}"
    assert text_of() == "No valid host was found. There are no hosts."


@pytest.mark.parametrize("choice", ["force_hosts", "requested_destination"])
def test_the_rule_that_rejects_the_requested_host_comes_first(choice: str) -> None:
    steps = replace(CHOICE, rule=choice), RuleCount("Placement: VCPU", "cannot give 9 VCPU", 1, 0)
    assert text_of(*steps) == (
        "No valid host was found. The requested host was rejected: cannot give 9 VCPU. "
        f"{choice}: 2 of 3 hosts, Placement: VCPU: 1 of 1 hosts"
    )


@pytest.mark.parametrize("rule", ["map_az_to_placement_aggregate", "AvailabilityZoneFilter"])
def test_a_requested_host_outside_the_requested_zone_is_told_in_full(rule: str) -> None:
    zoned = replace(SPEC, availability_zone="nova")
    text = text_of(CHOICE, RuleCount(rule, "not in the availability zone", 1, 0), spec=zoned)
    assert text.startswith(
        "No valid host was found. The requested host is in no aggregate with availability zone nova, as requests for "
        "this zone need while there is one; add the host to it, or name the host without a zone. force_hosts: "
    )
    assert text.index("force_hosts") < LONGEST


def test_a_requested_host_that_is_not_there_any_more_has_no_reason_of_its_own() -> None:
    assert text_of(replace(CHOICE, hosts_out=0)) == "No valid host was found. force_hosts: 3 of 3 hosts"
