# SPDX-License-Identifier: Apache-2.0
"""Facts that are computed once for a page of servers equal the facts of each server on a page of its own."""

import json
from dataclasses import replace
from typing import Any

import pytest

from api.compute_cloud import Cloud
from kilonova.api.compute.versions import MAX_VERSION
from kilonova.db import aggregates, instances, request_specs
from kilonova.db.core.transaction import Transaction
from kilonova.identifiers import new_uuid
from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.model.instance import Fault, Instance, PowerState, TaskState, VmState
from kilonova.model.request_spec import RequestSpec, StoredRequest
from support.api_client import Client

SMALL = Flavor("1", "m1.small", vcpus=1, memory_mib=512, root_gib=1, extra_specs={"hw:a": "1", "b": "2"})
#: The same flavor before somebody changed its extra specs, and another.
FORMER = replace(SMALL, extra_specs={"b": "2", "hw:a": "1"})
LARGE = Flavor("2", "m1.large", vcpus=8, memory_mib=8192, root_gib=80, ephemeral_gib=1, swap_mib=512)
IMAGES = tuple(Image(new_uuid(), name, properties={"os_distro": name}) for name in ("cirros", "debian"))


def _server(number: int, **facts: Any) -> Instance:
    project = facts.pop("project_id", "wonder")
    return Instance(0, new_uuid(), f"vm{number}", project, "alice", VmState.ACTIVE, facts.pop("flavor", SMALL), **facts)


def _store(tx: Transaction, server: Instance, image: Image | None, **changed: Any) -> None:
    spec = RequestSpec(server.flavor, image, project_id=server.project_id, hints={"group": (new_uuid(),)})
    request = StoredRequest(new_uuid(), spec, user_data=f"data of {server.name}")
    request_specs.insert(tx, [request])
    image_ref = None if image is None else image.id
    instances.insert(tx, [(replace(server, image_ref=image_ref, request_spec_uuid=request.uuid), None)])
    if changed:
        instances.change(tx, server.uuid, **changed)


@pytest.fixture
def servers(cloud: Cloud) -> Cloud:
    """As many servers as a page has at most, of which no two are alike, and neighbours share something."""
    cloud.add_host("east1")
    cloud.add_host("west1", up=False)

    def furnish(tx: Transaction) -> None:
        aggregates.add_host(tx, aggregates.create(tx, "east", "east").id, "east1", default_zone="nova")
        on_east, on_west = ({"host": host, "node": host} for host in ("east1", "west1"))
        _store(tx, _server(0, metadata={"role": "web"}, tags=("b", "a")), IMAGES[0], **on_east)
        _store(tx, _server(1, flavor=FORMER, project_id="other"), IMAGES[0], **on_east)
        _store(tx, _server(2, flavor=LARGE, description="large"), IMAGES[1], **on_west, power_state=PowerState.RUNNING)
        _store(tx, _server(3, flavor=LARGE, project_id="other", task_state=TaskState.REBOOTING), None, **on_west)
        failed = _server(4, availability_zone="east")
        _store(tx, failed, IMAGES[1], vm_state=VmState.ERROR, locked_by="owner", locked_reason="it broke")
        instances.record_fault(tx, failed.uuid, Fault(500, "No valid host was found.", "details"))

    cloud.database.write(furnish)
    return cloud


def _versions() -> list[str]:
    return [f"2.{minor}" for minor in range(1, MAX_VERSION.minor + 1)]


def _alone(client: Client, everywhere: str, version: str, ids: list[str]) -> list[Any]:
    found = []
    for marker in ("", *(f"&marker={server_id}" for server_id in ids[:-1])):
        body = client.at(version).get(f"/servers/detail?limit=1{everywhere}{marker}").body
        found += body["servers"]
    return found


@pytest.mark.parametrize("everywhere", ["", "&all_tenants=1"], ids=["member", "admin"])
def test_a_page_shows_each_server_as_if_it_were_alone(servers: Cloud, everywhere: str) -> None:
    client = servers.admin if everywhere else servers.member
    names = [f"vm{number}" for number in ((4, 3, 2, 1, 0) if everywhere else (4, 2, 0))]
    for version in _versions():
        page = client.at(version).get(f"/servers/detail?limit=5{everywhere}").body["servers"]
        assert [server["name"] for server in page] == names
        alone = _alone(client, everywhere, version, [server["id"] for server in page])
        assert list(map(json.dumps, page)) == list(map(json.dumps, alone)), version


def test_neighbours_keep_what_is_their_own(servers: Cloud) -> None:
    """Servers of one flavor, image, host or project each show their own copy of it."""
    page = servers.admin.at(str(MAX_VERSION)).get("/servers/detail?all_tenants=1").body["servers"]
    failed, rebooting, large, former, first = page
    assert [list(each["flavor"]["extra_specs"]) for each in page] == [
        ["hw:a", "b"], [], [], ["b", "hw:a"], ["hw:a", "b"]
    ]  # fmt: skip
    assert [each["flavor"]["original_name"] for each in (large, former)] == ["m1.large", "m1.small"]
    assert first["hostId"] != former["hostId"], "the digest is of the project and the host"
    assert [each["image"] and each["image"]["properties"]["os_distro"] for each in page] == [
        "debian", "", "debian", "cirros", "cirros"
    ]  # fmt: skip
    assert [each["OS-EXT-AZ:availability_zone"] for each in page] == ["east", "nova", "nova", "east", "east"]
    assert [each["host_status"] for each in page] == ["", "UNKNOWN", "UNKNOWN", "UP", "UP"]
    assert [each["tags"] for each in (first, former)] == [["a", "b"], []]
    assert (rebooting["status"], rebooting["OS-EXT-STS:task_state"]) == ("REBOOT", "rebooting")
    assert (large["OS-EXT-STS:power_state"], failed["OS-EXT-STS:power_state"]) == (1, 0)
    assert (failed["locked_reason"], failed["fault"]["details"], "fault" in large) == ("it broke", "details", False)
    groups = [each["scheduler_hints"]["group"] for each in page]
    assert len(set(groups)) == len(page)
