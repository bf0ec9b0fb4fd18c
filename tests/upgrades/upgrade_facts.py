# SPDX-License-Identifier: Apache-2.0
"""API responses that an upgrade must not change."""

from typing import Any

from kilonova.db import host_devices
from upgrades.upgrade_clouds import Cloud, opened

_OF_A_SERVER = ("name", "status", "OS-EXT-SRV-ATTR:host", "OS-EXT-AZ:availability_zone", "metadata")
_OF_A_DECISION = ("request_id", "created_at", "seq", "chosen", "alternates", "survivors", "forced", "steps", "ranked")


def facts(cloud: Cloud) -> dict[str, Any]:
    """Return the settled state: servers with their allocations and decisions, groups, pinned CPUs and devices."""
    servers = {shown["id"]: shown for shown in get(cloud, "/compute/v2.1/servers/detail?all_tenants=1")["servers"]}
    groups = get(cloud, "/compute/v2.1/os-server-groups?all_projects=1")["server_groups"]
    return {
        "servers": {uuid: _server(cloud, shown) for uuid, shown in sorted(servers.items())},
        "groups": {
            group["id"]: {
                "name": group["name"],
                "policy": group["policy"],
                "rules": group["rules"],
                "members": sorted(group["members"]),
            }
            for group in groups
        },
        "hosts": {
            shown["hypervisor_hostname"]: {"id": shown["id"], "state": shown["state"], "status": shown["status"]}
            for shown in get(cloud, "/compute/v2.1/os-hypervisors/detail")["hypervisors"]
        },
        "aggregates": {
            shown["name"]: {"hosts": sorted(shown["hosts"]), "metadata": shown["metadata"]}
            for shown in get(cloud, "/compute/v2.1/os-aggregates")["aggregates"]
        },
        "quota": get(cloud, "/compute/v2.1/os-quota-sets/wonder")["quota_set"],
        "devices": _devices(cloud),
    }


def get(cloud: Cloud, path: str) -> Any:
    status, body = cloud.ask("GET", path)
    assert status == 200, (path, body)
    return body


def _server(cloud: Cloud, shown: dict[str, Any]) -> dict[str, Any]:
    allocated = get(cloud, f"/placement/allocations/{shown['id']}")["allocations"]
    decisions = get(cloud, f"/operator/v1/decisions/{shown['id']}")["decisions"]
    return {
        **{name: shown[name] for name in _OF_A_SERVER},
        "flavor": shown["flavor"]["original_name"],
        "image": shown["image"]["id"],
        "fault": shown.get("fault", {}).get("message"),
        "allocations": {provider: found["resources"] for provider, found in sorted(allocated.items())},
        "decisions": sorted(
            ({name: decision[name] for name in _OF_A_DECISION} for decision in decisions),
            key=lambda decision: (decision["seq"], decision["request_id"]),
        ),
    }


def _devices(cloud: Cloud) -> dict[str, Any]:
    """Return the pinned CPUs and the PCI devices of servers."""
    with opened(cloud) as database, database.read() as connection:
        takings = host_devices.shares(connection)
    return {
        taking.instance_uuid: {
            "node": taking.node_uuid,
            "cells": [[part.cell, sorted(part.pinned)] for part in taking.share.cells],
            "pools": [list(part) for part in taking.share.devices],
        }
        for taking in takings
    }
