# SPDX-License-Identifier: Apache-2.0
"""Differences between the cloud of a scenario and an existing cloud."""

import json
from typing import Any

from kilonova.cli.scenarios.cloud_match import differences
from kilonova.cli.scenarios.settings import settings_of
from kilonova.config.configuration import public_options
from kilonova.scenario.model import Scenario
from support.scenario_cloud import FakeCloud, scenario


def running(of: Scenario, **changes: Any) -> FakeCloud:
    """Return the cloud that a scenario describes, with some of its options changed."""
    options = json.loads(json.dumps(public_options(settings_of(of).conf)))
    for group, values in changes.items():
        options[group] |= values
    hypervisors = [
        {
            "service": {"host": host.name},
            "state": "up",
            "vcpus": host.vcpus,
            "memory_mb": host.memory_mib,
            "local_gb": host.disk_gib,
        }
        for host in of.hosts
    ]
    return FakeCloud({"/options": {"options": options}, "/os-hypervisors/detail": {"hypervisors": hypervisors}})


def test_the_scenarios_own_cloud_does_not_differ() -> None:
    of = scenario(
        options={"DEFAULT": {"default_schedule_zone": "z"}, "filter_scheduler": {"available_filters": ["a.b"]}}
    )
    assert differences(of, running(of).seats()["admin"].api) == ()


def test_every_difference_is_named() -> None:
    of = scenario(options={"DEFAULT": {"default_schedule_zone": "z"}})
    changes = {"DEFAULT": {"default_schedule_zone": None}, "scheduler": {"max_attempts": 9}, "api": {"max_limit": 1}}
    cloud = running(of, **changes)
    hypervisors = cloud.answers["/os-hypervisors/detail"]["hypervisors"]
    hypervisors[0]["vcpus"] = 99
    hypervisors[1]["state"] = "down"
    hypervisors += [{"service": {"host": f"x{number}"}, "state": "up"} for number in range(7)]
    assert differences(of, cloud.seats()["admin"].api) == (
        "missing hosts: node2",
        "additional hosts: x0, x1, x2, x3, x4 …",
        "different size: node1",
        "different options: [scheduler] max_attempts, [DEFAULT] default_schedule_zone",
    )


def test_hosts_that_fail_cannot_be_told_by_looking() -> None:
    of = scenario(hosts=[{"name": "node", "count": 2, "failing_spawns": -1}])
    assert differences(of, running(of).seats()["admin"].api) == ("its hosts do not simulate failing builds",)
    own = running(of, fake={"scenario": "/some/where/small.yaml"})
    assert differences(of, own.seats()["admin"].api) == ()
