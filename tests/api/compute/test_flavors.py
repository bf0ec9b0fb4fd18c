# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from api.compute_cloud import Cloud
from support.api_client import Answer, Client

SMALL = {"name": "m1.small", "ram": 2048, "vcpus": 1, "disk": 20, "id": "2"}


def create(client: Client, **flavor: Any) -> Answer:
    return client.post("/flavors", {"flavor": {**SMALL, **flavor}})


def ids(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.body
    return [flavor["id"] for flavor in answer.body["flavors"]]


def links(flavor_id: str) -> list[dict[str, str]]:
    return [
        {"rel": "self", "href": f"http://cloud/compute/v2.1/flavors/{flavor_id}"},
        {"rel": "bookmark", "href": f"http://cloud/compute/flavors/{flavor_id}"},
    ]


def several(cloud: Cloud) -> None:
    """Ids 1, 10, 2 in this order of ids; created as 10, 2, 1."""
    create(cloud.admin, id="10", name="c", ram=512, disk=5, vcpus=4, swap=512)
    create(cloud.admin, id="2", name="a", ram=2048, disk=0, vcpus=2)
    create(cloud.admin, id="1", name="b", ram=1024, disk=10, vcpus=8, swap=64)


def test_the_view_grows_and_shrinks_with_the_version(cloud: Cloud) -> None:
    first = create(cloud.admin)
    assert first.status == 200
    expected: dict[str, Any] = {
        "id": "2",
        "name": "m1.small",
        "ram": 2048,
        "vcpus": 1,
        "disk": 20,
        "swap": "",
        "OS-FLV-EXT-DATA:ephemeral": 0,
        "OS-FLV-DISABLED:disabled": False,
        "os-flavor-access:is_public": True,
        "rxtx_factor": 1.0,
        "links": links("2"),
    }
    assert first.body == {"flavor": expected}
    changes: dict[str, dict[str, Any]] = {
        "2.55": {"description": None},
        "2.61": {"extra_specs": {}},
        "2.75": {"swap": 0},
    }
    for version, change in changes.items():
        expected |= change
        assert cloud.member.at(version).get("/flavors/2").body == {"flavor": expected}
        assert cloud.member.at(version).get("/flavors/detail").body == {"flavors": [expected]}
    for gone in ("rxtx_factor", "OS-FLV-DISABLED:disabled"):
        del expected[gone]
    assert cloud.member.at("2.102").get("/flavors/2").body == {"flavor": expected}


def test_the_short_list(cloud: Cloud) -> None:
    create(cloud.admin)
    short = {"id": "2", "name": "m1.small", "links": links("2")}
    assert cloud.member.get("/flavors").body == {"flavors": [short]}
    assert cloud.member.at("2.55").get("/flavors").body == {"flavors": [{**short, "description": None}]}


@pytest.mark.parametrize("given", [None, "auto"])
def test_an_id_is_made_when_none_is_given(cloud: Cloud, given: str | None) -> None:
    assert len(create(cloud.admin, id=given).body["flavor"]["id"]) == 36


def test_numbers_may_come_as_text_and_ids_as_numbers(cloud: Cloud) -> None:
    made = create(
        cloud.admin,
        id=7,
        ram="64",
        vcpus="2",
        disk="0",
        swap="5",
        rxtx_factor="1.5",
        **{"OS-FLV-EXT-DATA:ephemeral": "3", "os-flavor-access:is_public": "no"},
    ).body["flavor"]
    assert (made["id"], made["ram"], made["vcpus"], made["disk"], made["swap"]) == ("7", 64, 2, 0, 5)
    assert (made["rxtx_factor"], made["OS-FLV-EXT-DATA:ephemeral"]) == (1.5, 3)
    assert made["os-flavor-access:is_public"] is False


def test_names_and_ids_are_taken_once(cloud: Cloud) -> None:
    create(cloud.admin)
    assert create(cloud.admin, id="3").status == 409
    assert create(cloud.admin, name="other").status == 409
    assert create(cloud.admin, id="3", name="other").status == 200


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("name", " padded "),
        ("name", "x" * 300),
        ("name", "bell\u0007"),
        ("name", 5),
        ("id", "a/b"),
        ("id", ""),
        ("id", "x" * 256),
        ("id", 1.5),
        ("ram", 0),
        ("ram", "0"),
        ("ram", -1),
        ("ram", "-1"),
        ("ram", 1.5),
        ("ram", "many"),
        ("ram", None),
        ("ram", 2**31),
        ("ram", str(2**31)),
        ("ram", "9" * 5000),
        ("ram", True),
        ("vcpus", 0),
        ("vcpus", "0"),
        ("vcpus", 10**30),
        ("disk", -1),
        ("disk", "9999999999"),
        ("swap", -1),
        ("swap", str(2**31)),
        ("OS-FLV-EXT-DATA:ephemeral", -1),
        ("OS-FLV-EXT-DATA:ephemeral", str(2**31)),
        ("rxtx_factor", 0),
        ("rxtx_factor", "0"),
        ("rxtx_factor", -1),
        ("rxtx_factor", "9" * 400),
        ("rxtx_factor", "fast"),
        ("os-flavor-access:is_public", "perhaps"),
        ("description", "not yet"),
        ("colour", "red"),
    ],
)
def test_what_create_refuses_names_the_field(cloud: Cloud, field: str, value: object) -> None:
    before = cloud.everything()
    answer = create(cloud.admin.at("2.54"), **{field: value})
    assert (answer.status, answer.fault[0]) == (400, "badRequest")
    assert field in answer.fault[1]
    assert cloud.everything() == before


@pytest.mark.parametrize("field", ["name", "ram", "vcpus", "disk"])
def test_what_create_needs(cloud: Cloud, field: str) -> None:
    asked = {name: value for name, value in SMALL.items() if name != field}
    answer = cloud.admin.post("/flavors", {"flavor": asked})
    assert answer.status == 400
    assert field in answer.fault[1]


def test_descriptions_from_2_55(cloud: Cloud) -> None:
    client = cloud.admin.at("2.55")
    assert create(client, description="cheap\nand slow").body["flavor"]["description"] == "cheap\nand slow"
    updated = client.put("/flavors/2", {"flavor": {"description": None}})
    assert updated.status == 200
    assert updated.body["flavor"]["description"] is None
    assert cloud.admin.at("2.54").put("/flavors/2", {"flavor": {"description": "x"}}).status == 404
    assert client.put("/flavors/9", {"flavor": {"description": "x"}}).status == 404
    for body in (
        {},
        {"flavor": {}},
        {"flavor": {"description": "x" * 65536}},
        {"flavor": {"description": "x", "ram": 1}},
    ):
        assert client.put("/flavors/2", body).status == 400


def test_delete(cloud: Cloud) -> None:
    create(cloud.admin, **{"os-flavor-access:is_public": False})
    cloud.admin.post("/flavors/2/action", {"addTenantAccess": {"tenant": "wonder"}})
    cloud.admin.post("/flavors/2/os-extra_specs", {"extra_specs": {"a": "b"}})
    assert cloud.admin.delete("/flavors/2").status == 202
    assert cloud.admin.delete("/flavors/2").status == 404
    assert cloud.admin.get("/flavors/2").status == 404
    assert [cloud.everything()[table] for table in ("flavors", "flavor_projects", "flavor_extra_specs")] == [[], [], []]


def test_sorted_by_id_as_text_unless_asked_otherwise(cloud: Cloud) -> None:
    several(cloud)
    expected = {
        "": "1 10 2",
        "?sort_dir=desc": "2 10 1",
        "?sort_key=id": "10 2 1",
        "?sort_key=name": "2 1 10",
        "?sort_key=memory_mb&sort_dir=desc": "2 1 10",
        "?sort_key=root_gb": "2 10 1",
        "?sort_key=vcpus": "2 10 1",
        "?sort_key=swap": "2 1 10",
        "?sort_key=description": "1 10 2",
        "?sort_key=updated_at": "1 10 2",
        "?sort_key=rxtx_factor": "1 10 2",
        "?sort_key=is_public": "1 10 2",
        "?sort_key=disabled": "1 10 2",
        "?sort_key=vcpu_weight": "1 10 2",
        "?sort_key=ephemeral_gb": "1 10 2",
        "?sort_key=created_at": "10 2 1",
    }
    assert {query: " ".join(ids(cloud.member.get(f"/flavors{query}"))) for query in expected} == expected
    for query in ("?sort_key=colour", "?sort_dir=up"):
        assert cloud.member.get(f"/flavors{query}").status == 400
    assert cloud.member.at("2.101").get("/flavors?sort_key=rxtx_factor").status == 200
    assert cloud.member.at("2.102").get("/flavors?sort_key=rxtx_factor").status == 400


def test_no_rxtx_factor_from_2_102(cloud: Cloud) -> None:
    flavor = {"name": "f", "ram": 1, "vcpus": 1, "disk": 1, "rxtx_factor": 1.0}
    assert cloud.admin.at("2.102").post("/flavors", {"flavor": flavor}).status == 400
    assert cloud.admin.at("2.101").post("/flavors", {"flavor": flavor}).status == 200


def test_at_least_so_much(cloud: Cloud) -> None:
    several(cloud)
    assert ids(cloud.member.get("/flavors?minRam=1024")) == ["1", "2"]
    assert ids(cloud.member.get("/flavors/detail?minDisk=5&minRam=1000")) == ["1"]
    for query in ("minRam=x", "minDisk=x"):
        answer = cloud.member.get(f"/flavors?{query}")
        assert answer.status == 400
        assert query.split("=", maxsplit=1)[0] in answer.fault[1]


def test_pages(cloud: Cloud) -> None:
    for number in range(1, 8):
        create(cloud.admin, id=f"{number}", name=f"f{number}")
    first = cloud.member.get("/flavors?limit=2&minRam=5")
    assert ids(first) == ["1", "2"]
    assert first.body["flavors_links"] == [
        {"rel": "next", "href": "http://cloud/compute/v2.1/flavors?limit=2&minRam=5&marker=2"}
    ]
    assert ids(cloud.member.get("/flavors")) == ["1", "2", "3", "4", "5"]
    last = cloud.member.get("/flavors/detail?marker=5&limit=1000")
    assert ids(last) == ["6", "7"]
    assert "flavors_links" not in last.body
    assert ids(cloud.member.get("/flavors?limit=0")) == []
    for query in ("marker=99", "limit=-1", "limit=x", "limit="):
        assert cloud.member.get(f"/flavors?{query}").status == 400


def test_private_flavors(cloud: Cloud) -> None:
    create(cloud.admin, id="pub", name="pub")
    create(cloud.admin, id="mine", name="mine", **{"os-flavor-access:is_public": False})
    create(cloud.admin, id="other", name="other", **{"os-flavor-access:is_public": False})
    cloud.admin.post("/flavors/mine/action", {"addTenantAccess": {"tenant": "wonder"}})
    assert ids(cloud.member.get("/flavors")) == ["mine", "pub"]
    assert ids(cloud.member.get("/flavors?is_public=none")) == ["mine", "pub"]
    assert [cloud.member.get(f"/flavors/{flavor}").status for flavor in ("pub", "mine", "other")] == [200, 200, 404]
    assert ids(cloud.admin.get("/flavors")) == ["pub"]
    assert ids(cloud.admin.get("/flavors?is_public=True")) == ["pub"]
    assert ids(cloud.admin.get("/flavors?is_public=f")) == ["mine", "other"]
    assert ids(cloud.admin.get("/flavors?is_public=None")) == ["mine", "other", "pub"]
    refused = cloud.admin.get("/flavors?is_public=perhaps")
    assert refused.status == 400
    assert "is_public" in refused.fault[1]


def test_the_name_filter_and_strict_queries_of_2_102(cloud: Cloud) -> None:
    several(cloud)
    assert ids(cloud.member.at("2.74").get("/flavors?name=a&colour=red")) == ["1", "10", "2"]
    assert cloud.member.at("2.75").get("/flavors?colour=red").status == 400
    assert ids(cloud.member.at("2.102").get("/flavors?name=a")) == ["2"]
    assert cloud.member.at("2.101").get("/flavors/1?colour=red").status == 200
    assert cloud.member.at("2.102").get("/flavors/1?colour=red").status == 400
