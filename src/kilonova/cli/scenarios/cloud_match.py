# SPDX-License-Identifier: Apache-2.0
"""Comparison of a running cloud with the cloud that a scenario describes."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kilonova.cli.cloud.options import OPERATOR, Api
from kilonova.cli.scenarios.settings import settings_of
from kilonova.config.configuration import public_options
from kilonova.scenario.model import Scenario

_RULE_GROUPS = ("filter_scheduler", "scheduler")
_HYPERVISORS_WITH_SIZES = "2.53"


def differences(scenario: Scenario, api: Api) -> tuple[str, ...]:
    """Return a text for each difference between the running cloud and the scenario in hosts, host sizes and options."""
    running = api.get(OPERATOR, "/options")["options"]
    found = [*_host_differences(scenario, api), *_option_differences(scenario, running)]
    if any(host.failing_spawns for host in scenario.hosts):
        started = running.get("fake", {}).get("scenario") or ""
        if Path(started).stem != scenario.name:
            found.append("its hosts do not simulate failing builds")
    return tuple(found)


def _host_differences(scenario: Scenario, api: Api) -> list[str]:
    listed = api.get("compute", "/os-hypervisors/detail", _HYPERVISORS_WITH_SIZES)["hypervisors"]
    up = {each["service"]["host"]: each for each in listed if each["state"] == "up"}
    wanted = {host.name: host for host in scenario.hosts}
    missing, extra = sorted(wanted.keys() - up.keys()), sorted(up.keys() - wanted.keys())
    sizes = [
        name
        for name, host in wanted.items()
        if name in up
        and (host.vcpus, host.memory_mib, host.disk_gib)
        != (up[name]["vcpus"], up[name]["memory_mb"], up[name]["local_gb"])
    ]
    kinds = (("missing hosts:", missing), ("additional hosts:", extra), ("different size:", sizes))
    return [f"{kind} {', '.join(names[:5])}{' …' * (len(names) > 5)}" for kind, names in kinds if names]


def _option_differences(scenario: Scenario, running: Mapping[str, Any]) -> list[str]:
    expected = json.loads(json.dumps(public_options(settings_of(scenario).conf)))
    looked_at = [(group, name) for group in _RULE_GROUPS for name in expected[group]]
    looked_at += [(group, name) for group, options in scenario.options.items() for name in options]
    differing = [
        f"[{group}] {name}"
        for group, name in dict.fromkeys(looked_at)
        if running.get(group, {}).get(name) != expected.get(group, scenario.options.get(group, {})).get(name)
    ]
    return [f"different options: {', '.join(differing)}"] if differing else []
