# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest

from api.compute_cloud import Cloud
from kilonova.api.compute.servers import actions, servers, volumes_boot


def test_servers_under_the_path_of_volumes(cloud: Cloud) -> None:
    uuid = cloud.add_server(None, name="same")
    member, path = cloud.member.at("2.102"), f"/os-volumes_boot/{uuid}"
    assert member.get(path).body == member.get(f"/servers/{uuid}").body
    assert [server["name"] for server in member.get("/os-volumes_boot/detail").body["servers"]] == ["same"]
    assert member.put(path, {"server": {"name": "other"}}).status == 200
    assert member.post(f"{path}/action", {"nonsense": None}).status == 400
    assert cloud.as_user("mallory", "elsewhere").at("2.102").get(path).status == 404


@pytest.mark.parametrize(("version", "status"), [("2.1", 200), ("2.102", 200), ("2.103", 404)])
def test_the_path_of_volumes_ends_with_2_102(cloud: Cloud, version: str, status: int) -> None:
    uuid = cloud.add_server(None, name="booted")
    member = cloud.member.at(version)
    for path in ("", "/detail", f"/{uuid}"):
        answer = member.get(f"/os-volumes_boot{path}")
        assert answer.status == status
        if status == 200:
            server = answer.body["server"] if path.endswith(uuid) else answer.body["servers"][0]
            assert (server["id"], server["links"][0]["href"].endswith(f"/servers/{uuid}")) == (uuid, True)


def test_both_paths_have_the_same_routes() -> None:
    for template, endpoints in {**servers.ROUTES, **actions.ROUTES}.items():
        others = volumes_boot.ROUTES[template.replace("/servers", "/os-volumes_boot")]
        assert others.keys() == endpoints.keys()
        for method, endpoint in endpoints.items():
            assert replace(others[method], until=None) == endpoint
