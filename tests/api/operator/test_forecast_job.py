# SPDX-License-Identifier: Apache-2.0
"""Jobs of the kind ``forecast``: a scenario that begins with the present cloud."""

from typing import Any

import pytest

from support.control import Control, NewControl
from support.inline_jobs import result_of_job

SCENARIO = """
images: [{name: cirros}]
hosts:
  - {name: node1, memory_mib: 1536}
"""
CONF = "[operator]\njob_workers = 0\n"
FIXED = {"distribution": "fixed", "value": "5d"}


@pytest.fixture
def control(new_control: NewControl) -> Control:
    return new_control(more=CONF, scenario=SCENARIO)


def asked(**fields: Any) -> dict[str, Any]:
    return {"length": "10d", "interval": "5d", "arrivals": [{"count": 4, "flavors": {"flavor1": 1}}], **fields}


def forecast(control: Control, scenario: dict[str, Any], **more: Any) -> dict[str, Any]:
    return result_of_job(control, "forecast", {"scenario": scenario, **more})


def without_times(found: dict[str, Any]) -> dict[str, Any]:
    return {**found, "policies": [{**each, "took": None} for each in found["policies"]]}


def test_a_forecast_begins_with_the_present_servers(control: Control) -> None:
    control.boot(control.admin)
    found = forecast(control, asked())
    policy = found["policies"][0]
    assert (found["present"], found["arrivals"], policy["policy"]) == (1, 4, "present")
    assert (policy["accepted"], policy["refused"], policy["left"]) == (1, 3, 0), "there is memory for two servers"
    assert policy["intervals"][-1]["servers"] == 2
    assert without_times(found) == without_times(forecast(control, asked()))
    assert found["seq"] > 0


def test_present_servers_leave_if_their_lifetimes_are_given(control: Control) -> None:
    for _ in range(2):
        control.boot(control.admin)
    late = {"count": 2, "flavors": {"flavor1": 1}, "begins": "6d"}
    assert forecast(control, asked(arrivals=[late]))["policies"][0]["accepted"] == 0
    policy = forecast(control, asked(arrivals=[late], present=FIXED))["policies"][0]
    assert (policy["accepted"], policy["left"]) == (2, 2)
    assert policy["intervals"][-1]["usage"]["MEMORY_MB"]["used"] == 1.0


def test_policies_are_changes_of_the_present_rules(control: Control) -> None:
    policies = [{"name": "one", "enable": ["NumInstancesFilter"], "options": {"max_instances_per_host": "1"}}]
    found = forecast(control, asked(), name="now", policies=policies)["policies"]
    assert [(each["policy"], each["accepted"]) for each in found] == [("now", 2), ("one", 1)]
    assert found[1]["refused_by"] == {"NumInstancesFilter": 3}


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"scenario": {}}, "required field `length`"),
        ({"scenario": asked(length="5")}, "length: expected `str` that is a duration"),
        ({"scenario": asked(cloud="zones")}, "cloud: a forecast of the present cloud cannot have it"),
        ({"scenario": asked(traces=["a.csv"])}, "traces: a forecast of the present cloud cannot have it"),
        ({"scenario": asked(interval="1m")}, "interval: there may be at most"),
        ({"scenario": asked(arrivals=[{"count": 1, "flavors": {"odd": 1}}])}, "arrivals[0].flavors"),
        ({"scenario": asked(arrivals=[{"count": 1, "flavors": {"flavor1": 1}, "images": {"odd": 1}}])}, "image"),
        ({"scenario": asked(), "policies": [{"name": "present"}]}, "Two policies have the same name"),
        ({"scenario": asked(), "odd": 1}, "odd"),
    ],
)
def test_bad_parameters_are_refused(control: Control, parameters: dict[str, Any], text: str) -> None:
    answer = control.operator.post("/jobs", {"kind": "forecast", "parameters": parameters})
    assert answer.status == 400
    assert text in str(answer.body)
