# SPDX-License-Identifier: Apache-2.0
import orjson
import pytest

from support.dashboards import Browser, FakeCloud

FOUND = {
    "seq": 9,
    "fits": {"m1.tiny": 40, "m1.big": 0, "=cmd": None},
    "next": [
        {"flavor": "m1.big", "reasons": [{"rule": "Placement: VCPU", "reason": "cannot give 8 VCPU", "hosts": 3}]}
    ],
}


@pytest.fixture
def cloud(cloud: FakeCloud) -> FakeCloud:
    cloud.answers["POST", "/v1/capacity"] = FOUND
    return cloud


def test_each_flavor_with_what_refuses_the_next(operator: Browser, cloud: FakeCloud) -> None:
    page = operator.get("/capacity?flavor=m1.big&flavor=m1.tiny&image=tiny").text
    assert "3 hosts, cannot give 8 VCPU" in page
    assert orjson.loads(cloud.asked[-1].content) == {"flavors": ["m1.big", "m1.tiny"], "image": "tiny"}


def test_the_same_as_files(operator: Browser) -> None:
    assert "m1.big,0,Placement: VCPU: cannot give 8 VCPU" in operator.get("/capacity.csv").text
    assert "'=cmd" in operator.get("/capacity.csv").text
    assert orjson.loads(operator.get("/capacity.json").content)[0] == {"flavor": "m1.tiny", "fits": 40, "next": ""}


def test_members_see_no_capacity(member: Browser) -> None:
    assert member.get("/capacity").status_code == 403
