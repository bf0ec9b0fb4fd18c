# SPDX-License-Identifier: Apache-2.0
"""Send all GET requests to a small cloud, and validate the responses with Nova's schemas."""

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema

from kilonova.api.http import Endpoint
from kilonova.api.microversion import Version
from schema_peer.on_purpose import ANSWERS
from support.control import IMAGE, Control, start_control
from support.fake_neutron import FakeNeutron

_NEWEST = 104
_QUERIES = ("", "?all_tenants=1&limit=1", "?detailed=1", "?with_servers=1")
_NOWHERE = "5b674f73-0000-4000-8000-000000000000"


def wrong_answers(theirs: Mapping[str, Any], endpoints: Mapping[str, Endpoint]) -> tuple[int, int, list[str]]:
    """Return the number of checked responses and methods, and the schema violations."""
    with tempfile.TemporaryDirectory() as folder:
        cloud = start_control(Path(folder), network=FakeNeutron())
        try:
            return _checked(cloud, _furnished(cloud), theirs, endpoints)
        finally:
            cloud.process.close()


def _furnished(cloud: Control) -> dict[str, str]:
    """Create one resource of each kind, and return the values of route parameters."""
    admin = cloud.admin
    cloud.add_flavor()
    admin.post("/flavors/1/os-extra_specs", {"extra_specs": {"hw:numa_nodes": "1"}})
    network = cloud.neutron.make_network(project_id="admin", v6="fd00::/64")
    server = cloud.boot(admin, metadata={"a": "b"})["id"]
    (port,) = cloud.neutron.ports_of(server)
    outside = {"floating_network_id": cloud.neutron.make_external(), "project_id": "admin"}
    floating = cloud.neutron.create("floatingips", {**outside, "port_id": port["id"]})["id"]
    cloud.neutron.create("floatingips", outside)
    admin.post("/os-server-external-events", {"events": [{"name": "network-changed", "server_uuid": server}]})
    admin.put(f"/servers/{server}/tags", {"tags": ["t"]})
    admin.post(f"/servers/{server}/action", {"migrate": None})
    cloud.settle()
    admin.post(f"/servers/{server}/action", {"confirmResize": None})
    cloud.settle()
    admin.at("2.10").post("/os-keypairs", {"keypair": {"name": "key"}})
    group = admin.post("/os-server-groups", {"server_group": {"name": "g", "policy": "affinity"}}).body
    zone = admin.post("/os-aggregates", {"aggregate": {"name": "x", "availability_zone": "z"}}).body["aggregate"]
    return {
        "server_id": server,
        "flavor_id": "1",
        "key": "a",
        "tag": "t",
        "aggregate_id": str(zone["id"]),
        "keypair_name": "key",
        "request_id": admin.get(f"/servers/{server}/os-instance-actions").body["instanceActions"][0]["request_id"],
        "server_group_id": group["server_group"]["id"],
        "image_id": IMAGE,
        "host_name": "node1",
        "before": "2027-01-01 00:00:00",
        "usage_project_id": "admin",
        "quota_project_id": "admin",
        "class_name": "default",
        "alias": "os-hosts",
        "network": "private",
        "port_id": port["id"],
        "network_id": network,
        "security_group_id": port["security_groups"][0],
        "floating_ip_id": floating,
    }


def _checked(
    cloud: Control, values: dict[str, str], theirs: Mapping[str, Any], endpoints: Mapping[str, Endpoint]
) -> tuple[int, int, list[str]]:
    count, methods, wrong = 0, set(), {}
    for route, endpoint in endpoints.items():
        family, method, template = route.split()[:3]
        template = template.replace("/v2.1", "", 1)
        key = re.sub(r"{\w+}", "{}", f"{method} {template}")
        if family != "compute" or method != "GET" or key not in theirs:
            continue
        spans = theirs[key]["answer"]
        for minor in sorted({1, _NEWEST, *(minor for span in spans for minor in (span["from"], span["to"]))}):
            schema = next((span["schema"] for span in spans if span["from"] <= minor <= span["to"]), None)
            if schema is None or minor > _NEWEST or not endpoint.exists_at(Version(2, minor)):
                continue
            validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
            for query in _QUERIES:
                answer = cloud.admin.at(f"2.{minor}").get(_path(cloud, template, values, minor) + query)
                if answer.status >= 300:
                    continue
                count += 1
                methods.add(key)
                for error in validator.iter_errors(answer.body):
                    place = re.sub(r"\b\d+\b", "#", ".".join(map(str, error.absolute_path)))
                    if (key, place) not in ANSWERS:
                        wrong.setdefault((key, place), f"{key} answer {place} at 2.{minor}: {error.message[:200]}")
    return count, len(methods), list(wrong.values())


def _path(cloud: Control, template: str, values: dict[str, str], minor: int) -> str:
    known = dict(values)
    if "os-extra_specs" in template:
        known["key"] = "hw:numa_nodes"
    if "hypervisor_id" in template:
        by_name = template.endswith(("search", "servers"))
        listed = cloud.admin.at(f"2.{minor}").get("/os-hypervisors").body["hypervisors"]
        known["hypervisor_id"] = "node1" if by_name else str(listed[0]["id"])
    return re.sub(r"{(\w+)}", lambda found: known.get(found[1], _NOWHERE), template)
