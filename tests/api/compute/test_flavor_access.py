# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from api.compute_cloud import Cloud
from support.api_client import Answer


def make(cloud: Cloud, flavor_id: str, *, public: bool) -> None:
    flavor = {"id": flavor_id, "name": flavor_id, "ram": 1, "vcpus": 1, "disk": 0, "os-flavor-access:is_public": public}
    assert cloud.admin.post("/flavors", {"flavor": flavor}).status == 200


def act(cloud: Cloud, flavor_id: str, version: str = "2.7", **action: Any) -> Answer:
    return cloud.admin.at(version).post(f"/flavors/{flavor_id}/action", action)


def test_share_and_stop_sharing(cloud: Cloud) -> None:
    make(cloud, "f", public=False)
    shared = act(cloud, "f", addTenantAccess={"tenant": "wonder"})
    assert shared.status == 200
    assert shared.body == {"flavor_access": [{"flavor_id": "f", "tenant_id": "wonder"}]}
    assert act(cloud, "f", addTenantAccess={"tenant": "wonder"}).status == 409
    act(cloud, "f", addTenantAccess={"tenant": "abc"})
    listed = cloud.admin.get("/flavors/f/os-flavor-access").body["flavor_access"]
    assert [access["tenant_id"] for access in listed] == ["abc", "wonder"]
    assert cloud.member.get("/flavors/f").status == 200
    stopped = act(cloud, "f", removeTenantAccess={"tenant": "wonder"})
    assert stopped.body == {"flavor_access": [{"flavor_id": "f", "tenant_id": "abc"}]}
    assert act(cloud, "f", removeTenantAccess={"tenant": "wonder"}).status == 404
    assert cloud.member.get("/flavors/f").status == 404


def test_public_flavors(cloud: Cloud) -> None:
    make(cloud, "f", public=True)
    assert cloud.admin.get("/flavors/f/os-flavor-access").status == 404
    assert act(cloud, "f", "2.6", addTenantAccess={"tenant": "wonder"}).status == 200
    assert act(cloud, "f", "2.7", addTenantAccess={"tenant": "other"}).status == 409


def test_unknown_flavors(cloud: Cloud) -> None:
    assert cloud.admin.get("/flavors/f/os-flavor-access").status == 404
    assert act(cloud, "f", addTenantAccess={"tenant": "wonder"}).status == 404
    assert act(cloud, "f", removeTenantAccess={"tenant": "wonder"}).status == 404


@pytest.mark.parametrize(
    "action",
    [
        {},
        {"shareWith": {"tenant": "a"}},
        {"addTenantAccess": {}},
        {"addTenantAccess": {"tenant": ""}},
        {"addTenantAccess": {"tenant": "a b"}},
        {"addTenantAccess": {"tenant": "x" * 256}},
        {"addTenantAccess": {"tenant": 5}},
        {"addTenantAccess": {"tenant": "a", "colour": "red"}},
        {"addTenantAccess": None},
        {"removeTenantAccess": {"tenant": None}},
        {"addTenantAccess": {"tenant": "a"}, "removeTenantAccess": {"tenant": "a"}},
    ],
)
def test_what_is_refused(cloud: Cloud, action: dict[str, Any]) -> None:
    make(cloud, "f", public=False)
    before = cloud.everything()
    assert act(cloud, "f", **action).status == 400
    assert cloud.everything() == before
