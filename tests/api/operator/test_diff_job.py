# SPDX-License-Identifier: Apache-2.0
"""Jobs of the kind ``diff``: stored decisions again under a change of policy."""

from contextlib import closing
from typing import Any

import pytest

from kilonova.claims.checkpointer import Checkpointer
from kilonova.db import checkpoints
from support.control import Control, NewControl, start_control
from support.inline_jobs import result_of_job
from support.waiting import wait_until

SCENARIO = """
images: [{name: cirros}]
hosts:
  - {name: node1, vcpus: 8, memory_mib: 16384}
  - {name: node2, vcpus: 8, memory_mib: 8192}
  - {name: node3, vcpus: 8, memory_mib: 4096}
"""
CONF = """[operator]
job_workers = 0
[filter_scheduler]
enabled_filters = ComputeFilter,AggregateInstanceExtraSpecsFilter,NumInstancesFilter
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


def diff(control: Control, **parameters: Any) -> dict[str, Any]:
    control.process.database.write(lambda tx: tx.now)  # decisions that are stored in the background are stored
    return result_of_job(control, "diff", parameters)


def aggregate(control: Control, host: str, **metadata: str) -> str:
    made = control.admin.post("/os-aggregates", {"aggregate": {"name": "fast"}}).body["aggregate"]
    action = f"/os-aggregates/{made['id']}/action"
    assert control.admin.post(action, {"add_host": {"host": host}}).status == 200
    assert control.admin.post(action, {"set_metadata": {"metadata": metadata}}).status == 200
    return str(made["id"])


def extra_spec(control: Control, **specs: str) -> None:
    assert control.admin.post("/flavors/1/os-extra_specs", {"extra_specs": specs}).status == 200


def told(found: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [tuple(each[name] for name in ("verdict", "from", "to", "rule", "effect")) for each in found["differences"]]


def test_no_change_makes_no_difference(control: Control) -> None:
    for _ in range(3):
        control.boot(control.admin)
    found = diff(control)
    assert (found["decisions"], found["counts"]) == (3, {"same": 3, "elsewhere": 0, "fails": 0, "fits": 0})
    assert (found["differences"], found["undecided"], found["rules"], found["decided_twice"]) == ([], [], [], 0)


def test_a_disabled_rule_is_named(control: Control) -> None:
    aggregate(control, "node3", ssd="true")
    extra_spec(control, **{"aggregate_instance_extra_specs:ssd": "true"})
    server = control.boot(control.admin)
    assert server["OS-EXT-SRV-ATTR:host"] == "node3"
    found = diff(control, disable=["AggregateInstanceExtraSpecsFilter"])
    assert told(found) == [("elsewhere", "node3", "node1", "AggregateInstanceExtraSpecsFilter", "allows")]
    assert found["differences"][0]["server"] == server["id"]
    assert found["rules"] == [{"rule": "AggregateInstanceExtraSpecsFilter", "elsewhere": 1, "fails": 0, "fits": 0}]


def test_options_weights_and_rules(control: Control) -> None:
    for _ in range(3):
        control.boot(control.admin)
    packed = diff(control, weights={"RAMWeigher": -1.0})
    assert told(packed)[0] == ("elsewhere", "node1", "node3", "RAMWeigher", "prefers")
    assert diff(control, options={"ram_weight_multiplier": "-1.0"})["differences"] == packed["differences"]
    full = diff(control, options={"max_instances_per_host": "1"})
    assert told(full)[0] == ("elsewhere", "node1", "node2", "NumInstancesFilter", "rejects")
    alone = diff(control, disable=["ComputeFilter", "owner_nova_filter"], enable=["NumInstancesWeigher", "RamFilter"])
    assert alone["counts"]["same"] == 3


def test_aggregates_hosts_and_flavors(control: Control) -> None:
    aggregate(control, "node3", ssd="true")
    control.boot(control.admin)
    key = "aggregate_instance_extra_specs:ssd"
    asks = diff(control, flavors={"flavor1": {"extra_specs": {key: "true"}}})
    assert told(asks) == [("elsewhere", "node1", "node3", "AggregateInstanceExtraSpecsFilter", "rejects")]
    both = {"fast": {"add_hosts": ["node2"], "remove_hosts": ["node3"]}}
    moved = diff(control, flavors={"1": {"extra_specs": {key: "true"}}}, aggregates=both)
    assert told(moved)[0][:3] == ("elsewhere", "node1", "node2")
    fails = diff(control, flavors={"1": {"extra_specs": {key: "false"}}})
    assert told(fails) == [("fails", "node1", None, "AggregateInstanceExtraSpecsFilter", "rejects")]
    gone = diff(control, hosts={"node1": {"disabled": True}})
    assert told(gone)[0][:3] == ("elsewhere", "node1", "node2")
    assert diff(control, flavors={"odd": {"extra_specs": {"a": None}}})["notes"][0] == (
        "No decision that was looked at is for the flavor odd."
    )


def test_a_refused_request_fits(control: Control) -> None:
    extra_spec(control, **{"aggregate_instance_extra_specs:ssd": "true"})
    server = control.boot(control.admin)
    assert server["status"] == "ERROR"
    found = diff(control, disable=["AggregateInstanceExtraSpecsFilter"])
    assert told(found) == [("fits", None, "node1", "AggregateInstanceExtraSpecsFilter", "allows")]
    assert diff(control)["counts"]["same"] == 1


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"odd": 1}, "odd"),
        ({"last": 0}, "last"),
        ({"options": {"odd": "1"}}, "options"),
        ({"options": {"host_subset_size": "0"}}, "host_subset_size"),
        ({"options": {"host_subset_size": "many"}}, "host_subset_size"),
        ({"options": {"available_filters": "os.path.join"}}, "available_filters"),
        ({"options": {"scheduler.plugin_path": "/tmp"}}, "plugin_path"),
        ({"options": {"driver": "x"}}, "driver"),
        ({"options": {"pci_alias": "{"}}, "pci_alias"),
        ({"enable": ["NoFilter"]}, "NoFilter"),
        ({"enable": ["os.path.join"]}, "os.path.join"),
        ({"disable": ["RamFilter"]}, "RamFilter"),
        ({"weights": {"NoWeigher": 1}}, "NoWeigher"),
        ({"weights": {"RAMWeigher": "1"}}, "weights"),
        ({"aggregates": {"none": {}}}, "none"),
        ({"hosts": {"none": {"disabled": True}}}, "none"),
        ({"filters": ["os:path"]}, "filters"),
        ({"flavors": {"1": {"extra_specs": {"a": 1}}}}, "extra_specs"),
    ],
)
def test_bad_input_names_the_field(control: Control, parameters: dict[str, Any], told: str) -> None:
    answer = control.operator.post("/jobs", {"kind": "diff", "parameters": parameters})
    assert answer.status == 400, answer.body
    assert told in answer.body["badRequest"]["message"]


def test_a_decision_before_the_checkpoints_is_counted(new_control: NewControl) -> None:
    control = new_control(more=CONF + "[operator]\ncheckpoints_kept = 0\n", scenario=SCENARIO)
    control.boot(control.admin)
    found = diff(control)
    assert found["undecided"] == [{"reason": "The decision is older than the oldest checkpoint.", "decisions": 1}]
    assert sum(found["counts"].values()) == 0


def test_other_options_are_compared_with_the_present_ones(control: Control) -> None:
    control.boot(control.admin)
    control.process.close()
    later = start_control(control.folder, more=CONF + "ram_weight_multiplier = -1.0\n", scenario=SCENARIO)
    with closing(later.process):
        compare_with_present_options(later)


def compare_with_present_options(later: Control) -> None:
    found = diff(later)
    assert (found["counts"]["same"], found["decided_twice"], found["outdated"]) == (1, 1, 1)
    assert "1 decisions were made under other options" in found["notes"][0]
    assert told(diff(later, weights={"RAMWeigher": 1.0}))[0][:3] == ("elsewhere", "node3", "node1")


def test_a_job_repeats_in_a_process_of_its_own(new_control: NewControl) -> None:
    control = new_control(more=CONF.replace("job_workers = 0", ""), scenario=SCENARIO)
    wait_until(lambda: has_checkpoint(control), lambda: "the first checkpoint of the control process")
    control.boot(control.admin)
    asked = {"kind": "diff", "parameters": {"weights": {"RAMWeigher": -1.0}, "disable": ["NumInstancesFilter"]}}
    uuid = control.operator.post("/jobs", asked).body["job"]["id"]
    wait_until(lambda: shown(control, uuid)["state"] == "done", lambda: f"an end of {shown(control, uuid)}")
    assert told(shown(control, uuid)["result"]) == [("elsewhere", "node1", "node3", "RAMWeigher", "prefers")]


def shown(control: Control, uuid: str) -> dict[str, Any]:
    job: dict[str, Any] = control.operator.get(f"/jobs/{uuid}").body["job"]
    assert job["state"] not in {"failed", "cancelled"}, job
    return job
