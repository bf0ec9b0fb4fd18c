# SPDX-License-Identifier: Apache-2.0
from typing import Any

import orjson
import pytest

from support.dashboards import Browser, FakeCloud

FITS: dict[str, Any] = {
    "fits": True,
    "seq": 12,
    "explained_server": 1,
    "servers": [
        {
            "chosen": "node1",
            "survivors": 1,
            "forced": False,
            "steps": [{"rule": "ComputeFilter", "reason": "down", "hosts_in": 2, "hosts_out": 1}],
            "ranked": [],
        }
    ],
    "nearest_miss": [],
    "unread": [{"text": "hint <b>x</b>"}],
}
REFUSED = {
    **FITS,
    "fits": False,
    "servers": [{**FITS["servers"][0], "chosen": None, "survivors": 0}],
    "nearest_miss": [{"changes": [{"text": "4 vCPUs instead of 8"}], "host": "node1", "node": "node1", "fitting": 3}],
}


@pytest.fixture
def cloud(cloud: FakeCloud) -> FakeCloud:
    flavors = [
        {"id": "1", "name": "m1.tiny", "vcpus": 1, "ram": 512},
        {"id": "2", "name": "m1.big", "vcpus": 8, "ram": 1},
    ]
    cloud.answers["GET", "/v2.1/flavors/detail"] = {"flavors": flavors}
    cloud.answers["GET", "/v2.1/os-availability-zone"] = {"availabilityZoneInfo": [{"zoneName": "nova"}]}
    cloud.answers["POST", "/v1/explain"] = FITS
    return cloud


def test_the_form_without_a_question(operator: Browser, cloud: FakeCloud) -> None:
    assert "Choose a flavor" in operator.get("/what-if").text
    assert not [request for request in cloud.asked if request.url.path == "/v1/explain"]


def test_a_question_has_an_address(operator: Browser, cloud: FakeCloud) -> None:
    page = operator.get("/what-if?flavor=m1.tiny&availability_zone=nova&count=3&image=").text
    assert "It would go to" in page
    assert "&lt;b&gt;x&lt;/b&gt;" in page
    asked = next(request for request in cloud.asked if request.url.path == "/v1/explain")
    assert orjson.loads(asked.content) == {"flavor": "m1.tiny", "count": 3, "availability_zone": "nova"}


def test_a_script_gets_the_answer_only(operator: Browser) -> None:
    answer = operator.get("/what-if?flavor=1", Fragment="1").text
    assert "<form" not in answer
    assert "It would go to" in answer


def test_what_would_make_it_fit(operator: Browser, cloud: FakeCloud) -> None:
    cloud.answers["POST", "/v1/explain"] = REFUSED
    page = operator.get("/what-if?flavor=1").text
    assert "No host would take it" in page
    assert "4 vCPUs instead of 8" in page


def test_a_refused_question_is_shown_beside_the_form(operator: Browser, cloud: FakeCloud) -> None:
    refusal = {"badRequest": {"code": 400, "message": "Invalid input for field image."}}
    cloud.answers["POST", "/v1/explain"] = lambda _request: (400, refusal)
    page = operator.get("/what-if?flavor=1&image=none")
    assert page.status_code == 200
    assert "Invalid input for field image." in page.text
    assert 'value="none"' in page.text


@pytest.mark.parametrize("count", ["0", "101", "x"])
def test_a_bad_count_is_refused(operator: Browser, count: str) -> None:
    assert operator.get(f"/what-if?flavor=1&count={count}").status_code == 400


def test_members_cannot_ask(member: Browser) -> None:
    answer = member.get("/what-if?flavor=1")
    assert answer.status_code == 403
    assert "node1" not in answer.text
