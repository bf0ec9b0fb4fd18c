# SPDX-License-Identifier: Apache-2.0
from tests.unit.scheduler.small_cloud import request

from kilonova.model.server_group import GroupView
from kilonova.scheduler.nova_compat.request_view import as_driver_arguments
from kilonova.scheduler.resources import with_resources

SPEC = with_resources(
    request(
        properties={"tesora_edition": "x"},
        instance_uuids=("i1", "i2"),
        hints={"color": ("blue",), "rooms": ("a", "b")},
        ignore_hosts=frozenset({"many"}),
        group=GroupView("g", "anti-affinity", hosts={"many": 1, "up": 0}),
    )
)


def test_a_driver_gets_the_dicts_that_the_document_names() -> None:
    request_spec, properties = as_driver_arguments(SPEC, ["many"])
    assert (request_spec["num_instances"], request_spec["instance_uuids"]) == (2, ["i1", "i2"])
    assert request_spec["instance_type"]["memory_mb"] == request_spec["instance_properties"]["memory_mb"] == 512
    assert request_spec["image"]["properties"]["tesora_edition"] == "x"
    assert properties["scheduler_hints"] == {"color": "blue", "rooms": ["a", "b"]}
    assert properties["retry"] == {"num_attempts": 2, "hosts": [["many", None]]}
    assert (properties["group_hosts"], properties["group_policies"]) == ({"many"}, {"anti-affinity"})
    assert (properties["force_hosts"], properties["ignore_hosts"]) == ([], ["many"])
    assert properties["request_spec"] is request_spec
    request_spec["instance_properties"]["launch_index"] = 1
    assert "launch_index" not in as_driver_arguments(SPEC)[0]["instance_properties"]
    assert as_driver_arguments(SPEC)[1]["retry"] is None
