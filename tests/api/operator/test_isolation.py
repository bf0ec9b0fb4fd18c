# SPDX-License-Identifier: Apache-2.0
"""What nobody reads is named by the audit, by what-if and by the decisions of a server."""

from pathlib import Path
from typing import Any

import pytest

from kilonova.cli.wiring.control import image_id
from support.api_client import Client
from support.control import Control, NewControl, start_control

SCENARIO = """
images:
  - {name: plain}
  - {name: tagged, properties: {db: "true", hw_vif_model: virtio, hw_vif_modell: e1000}}
hosts:
  - {name: node1, vcpus: 8, memory_mib: 16384}
"""
SSD = "aggregate_instance_extra_specs:ssd"


@pytest.fixture
def control(new_control: NewControl) -> Control:
    return new_control(scenario=SCENARIO, flavor=False)


def texts(answer: dict[str, Any]) -> list[str]:
    return [each["text"] for each in answer["unread"]]


def add_flavor(control: Control, **extra_specs: str) -> None:
    control.add_flavor("1")
    specs = {key.replace("__", ":"): value for key, value in extra_specs.items()}
    if specs:
        answer = Client(control.process.application, version="2.85").post(
            "/flavors/1/os-extra_specs", {"extra_specs": specs}
        )
        assert answer.status == 200, answer.body


def add_aggregate(control: Control, *hosts: str, **metadata: str) -> None:
    made = control.admin.post("/os-aggregates", {"aggregate": {"name": "fast", "availability_zone": None}})
    at = f"/os-aggregates/{made.body['aggregate']['id']}/action"
    for host in hosts:
        assert control.admin.post(at, {"add_host": {"host": host}}).status == 200
    assert control.admin.post(at, {"set_metadata": {"metadata": metadata}}).status == 200


def test_the_audit_names_flavors_images_and_aggregates(control: Control) -> None:
    add_flavor(control, aggregate_instance_extra_specs__ssd="true", hw__cpu_polcy="shared", hw__watchdog_action="none")
    add_aggregate(control, ssd="true", rack="5")
    answer = control.operator.get("/rules")
    assert answer.status == 200
    report = answer.body["rules"]
    assert sorted(texts(report)) == [
        "aggregate fast has rack; nothing reads it",
        "aggregate fast has ssd; AggregateInstanceExtraSpecsFilter is not enabled",
        f"flavor flavor1 asks {SSD}; AggregateInstanceExtraSpecsFilter is not enabled",
        "flavor flavor1 asks hw:cpu_polcy; nothing reads it",
        "image tagged has db; nothing reads it",
        "image tagged has hw_vif_modell; nothing reads it",
    ]
    assert not report["clean"]
    assert report["may_read_anything"] == []
    assert report["examined"] == {"flavors": 1, "images": 2, "aggregates": 1}
    (named,) = (each for each in report["unread"] if each["key"] == SSD)
    assert named == {
        "of": "flavor",
        "id": "1",
        "name": "flavor1",
        "key": SSD,
        "value": "true",
        "would_be_read_by": ["AggregateInstanceExtraSpecsFilter"],
        "text": f"flavor flavor1 asks {SSD}; AggregateInstanceExtraSpecsFilter is not enabled",
    }


def test_what_if_and_decisions_name_what_their_request_asks_for(control: Control) -> None:
    add_flavor(control, aggregate_instance_extra_specs__ssd="true")
    add_aggregate(control, "node1", ssd="true")
    expected = [
        f"flavor flavor1 asks {SSD}; AggregateInstanceExtraSpecsFilter is not enabled",
        "image tagged has db; nothing reads it",
        "image tagged has hw_vif_modell; nothing reads it",
        "aggregate fast has ssd; AggregateInstanceExtraSpecsFilter is not enabled",
        "the request gives the hint same_host; SameHostFilter is not enabled",
    ]
    other = "11111111-1111-4111-8111-111111111111"
    asked = control.operator.post("/explain", {"flavor": "1", "image": "tagged", "hints": {"same_host": other}})
    assert texts(asked.body) == expected
    server = control.boot(hints={"same_host": other}, imageRef=image_id("tagged"))
    control.settle()
    (decision,) = control.operator.get(f"/decisions/{server['id']}").body["decisions"]
    assert texts(decision) == expected


def test_a_request_that_is_only_described_is_told_about_without_a_name(control: Control) -> None:
    flavor = {"vcpus": 1, "ram": 64, "extra_specs": {"made:up": "1", "quota:cpu_shares": "5"}}
    asked = control.operator.post("/explain", {"flavor": flavor, "image": {"properties": {"db": "1"}}})
    assert texts(asked.body) == [
        "the flavor asks made:up; nothing reads it",
        "the image has db; nothing reads it",
    ]


def test_with_a_rule_that_declares_nothing_nothing_is_called_unread(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "one_that_declares.py").write_text(
        "class Own:\n    def passes(self, hosts, spec):\n        return hosts.all_hosts\n"
    )
    control = start_control(
        tmp_path,
        scenario=SCENARIO,
        more=f"[scheduler]\nplugin_path = {tmp_path / 'rules'}\n[filter_scheduler]\nenabled_filters = Own\n",
    )
    report = control.operator.get("/rules").body["rules"]
    control.process.close()
    assert report["clean"]
    assert report["may_read_anything"] == ["Own"]
