# SPDX-License-Identifier: Apache-2.0
"""Previews of changes of aggregates and hosts: present servers that would violate them, and requests that they hit."""

from typing import Any

import pytest

from kilonova.api.operator.preview import Budget, TooLongError
from kilonova.claims.checkpointer import Checkpointer
from kilonova.db import checkpoints
from support.control import Control, NewControl
from support.inline_jobs import result_of_job
from support.waiting import wait_until

SCENARIO = """
images: [{name: cirros}]
hosts:
  - {name: node1, vcpus: 8, memory_mib: 16384}
  - {name: node2, vcpus: 8, memory_mib: 8192}
"""
CONF = """[operator]
job_workers = 0
[filter_scheduler]
enabled_filters =
 ComputeFilter,AggregateInstanceExtraSpecsFilter,AggregateNumInstancesFilter,AggregateTypeAffinityFilter
[scheduler]
enable_isolated_aggregate_filtering = true
limit_tenants_to_placement_aggregate = true
"""


@pytest.fixture
def control(new_control: NewControl) -> Control:
    control = new_control(more=CONF, scenario=SCENARIO)
    Checkpointer(control.process.database, 3).take_if_due()
    wait_until(lambda: has_checkpoint(control), lambda: "a checkpoint, which the control process may be taking")
    return control


def has_checkpoint(control: Control) -> bool:
    with control.process.database.read() as connection:
        return checkpoints.oldest(connection) is not None


@pytest.fixture
def rack(control: Control) -> Control:
    """An aggregate ``rack`` with node1."""
    made = control.admin.post("/os-aggregates", {"aggregate": {"name": "rack"}}).body["aggregate"]
    action = f"/os-aggregates/{made['id']}/action"
    assert control.admin.post(action, {"add_host": {"host": "node1"}}).status == 200
    return control


def preview(control: Control, **body: Any) -> dict[str, Any]:
    control.process.database.write(lambda tx: tx.now)
    answer = control.operator.post("/preview", body)
    assert answer.status == 200, answer.body
    found: dict[str, Any] = answer.body
    assert result_of_job(control, "preview", body) == found
    return found


def violations(found: dict[str, Any]) -> list[tuple[str, str]]:
    assert found["violations"] == len(found["servers"])
    return [(each["host"], each["rule"]) for each in found["servers"]]


def hit(found: dict[str, Any]) -> list[tuple[str, str | None, str | None]]:
    return [(each["verdict"], each["from"], each["to"]) for each in found["requests"]["differences"]]


def test_isolation_names_the_servers_and_the_requests(rack: Control) -> None:
    server = rack.boot(rack.admin)
    assert server["OS-EXT-SRV-ATTR:host"] == "node1"
    found = preview(rack, aggregates={"rack": {"metadata": {"kilonova:only": "project=another"}}})
    assert violations(found) == [("node1", "isolation")]
    assert hit(found) == [("elsewhere", "node1", "node2")]
    assert found["requests"]["differences"][0]["rule"] == "isolation"
    assert found["rules"] == [{"rule": "isolation", "servers": 1}]
    assert found["seq"] > 0
    everywhere = preview(
        rack, aggregates={"rack": {"metadata": {"kilonova:only": "project=another"}, "add_hosts": ["node2"]}}
    )
    assert hit(everywhere) == [("fails", "node1", None)]


@pytest.mark.parametrize(
    ("metadata", "rule"),
    [
        ({"filter_tenant_id": "fake"}, None),
        ({"instance_type": "other"}, "AggregateTypeAffinityFilter"),
        ({"trait:CUSTOM_SPECIAL": "required"}, "isolate_aggregates"),
        ({"max_instances_per_host": "2"}, None),
        ({"max_instances_per_host": "1"}, "AggregateNumInstancesFilter"),
        ({"colour": "red"}, None),
    ],
)
def test_each_kind_of_metadata(rack: Control, metadata: dict[str, str], rule: str | None) -> None:
    for _ in range(2):
        rack.boot(rack.admin)
    found = preview(rack, aggregates={"rack": {"metadata": metadata}})
    assert set(violations(found)) == (set() if rule is None else {("node1", rule)})


def test_a_host_that_leaves_an_aggregate(rack: Control) -> None:
    action = "/os-aggregates/1/action"
    assert rack.admin.post(action, {"set_metadata": {"metadata": {"ssd": "true"}}}).status == 200
    spec = {"aggregate_instance_extra_specs:ssd": "true"}
    assert rack.admin.post("/flavors/1/os-extra_specs", {"extra_specs": spec}).status == 200
    rack.boot(rack.admin)
    found = preview(rack, aggregates={"1": {"remove_hosts": ["node1"], "add_hosts": ["node2"]}})
    assert violations(found) == [("node1", "AggregateInstanceExtraSpecsFilter")]
    assert hit(found) == [("elsewhere", "node1", "node2")]
    assert violations(preview(rack, aggregates={"rack": {"metadata": {"ssd": None}}})) == violations(found)


def test_a_tenant_of_placement_aggregates(rack: Control) -> None:
    server = rack.boot(rack.admin)
    tenant = {"filter_tenant_id": server["tenant_id"]}
    found = preview(rack, aggregates={"rack": {"metadata": tenant, "remove_hosts": ["node1"], "add_hosts": ["node2"]}})
    assert violations(found) == [("node1", "require_tenant_aggregate")]
    assert hit(found) == [("elsewhere", "node1", "node2")]


def test_a_disabled_host_keeps_its_servers(rack: Control) -> None:
    rack.boot(rack.admin)
    found = preview(rack, hosts={"node1": {"disabled": True}})
    assert violations(found) == []
    assert hit(found) == [("elsewhere", "node1", "node2")]
    assert preview(rack, hosts={"node1": {"disabled": True}}, days=0)["requests"]["decisions"] == 0


def test_a_long_preview_becomes_a_job(rack: Control) -> None:
    with pytest.raises(TooLongError):
        Budget(1.0, lambda: 2.0).check(0.0, "")
    Budget(1.0, lambda: 0.5).check(0.0, "")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"aggregates": {"none": {}}}, "none"),
        ({"aggregates": {"rack": {"add_hosts": ["nowhere"]}}}, "add_hosts"),
        ({"aggregates": {"rack": {"add_hosts": ["node1"], "remove_hosts": ["node1"]}}}, "node1"),
        ({"aggregates": {"rack": {"hosts": []}}}, "hosts"),
        ({"aggregates": {"rack": {}, "1": {}}}, "twice"),
        ({"hosts": {"node9": {"disabled": True}}}, "node9"),
        ({"hosts": {"node1": {}}}, "disabled"),
        ({"days": -1}, "days"),
        ({"last": 5}, "last"),
    ],
)
def test_bad_input_names_the_field(rack: Control, body: dict[str, Any], told: str) -> None:
    answer = rack.operator.post("/preview", body)
    assert answer.status == 400, answer.body
    assert told in answer.body["badRequest"]["message"]
