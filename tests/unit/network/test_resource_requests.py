# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from kilonova.network.resource_requests import groups_of, resources_of

BANDWIDTH = {"resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 5}, "required": ["CUSTOM_VNIC_TYPE_NORMAL"]}
PACKETS = {"resources": {"NET_PACKET_RATE_KILOPACKET_PER_SEC": 7}, "required": []}
GROUPS = {"request_groups": [{"id": "a", **BANDWIDTH}, {"id": "b", **PACKETS}, {"id": "c", "resources": {}}]}


def port(request: Any, allocation: Any = None) -> dict[str, Any]:
    return {"id": "p", "resource_request": request, "binding:profile": allocation and {"allocation": allocation}}


@pytest.mark.parametrize(("request_", "suffixes"), [(None, []), ({}, []), (BANDWIDTH, ["p"]), (GROUPS, ["a", "b"])])
def test_groups_of_either_format(request_: Any, suffixes: list[str]) -> None:
    assert [(group.suffix, group.port_id) for group in groups_of(port(request_))] == [(each, "p") for each in suffixes]


@pytest.mark.parametrize(
    ("request_", "allocation", "used"),
    [
        (GROUPS, None, {}),
        (None, "rp1", {}),
        (BANDWIDTH, "rp1", {"rp1": BANDWIDTH["resources"]}),
        (GROUPS, {"a": "rp1", "b": "rp2"}, {"rp1": BANDWIDTH["resources"], "rp2": PACKETS["resources"]}),
        (GROUPS, {"a": "rp1", "b": "rp1"}, {"rp1": {**BANDWIDTH["resources"], **PACKETS["resources"]}}),
        (GROUPS, {"a": "rp1"}, {"rp1": BANDWIDTH["resources"]}),
    ],
)
def test_resources_that_a_bound_port_uses(request_: Any, allocation: Any, used: Any) -> None:
    assert resources_of(port(request_, allocation)) == used


def test_amounts_of_groups_with_one_provider_are_added() -> None:
    request = {"request_groups": [{"id": "a", **BANDWIDTH}, {"id": "b", **BANDWIDTH}]}
    assert resources_of(port(request, {"a": "rp1", "b": "rp1"})) == {"rp1": {"NET_BW_EGR_KILOBIT_PER_SEC": 10}}
