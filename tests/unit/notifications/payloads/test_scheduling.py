# SPDX-License-Identifier: Apache-2.0
"""Request specs in payloads."""

from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.model.request_spec import RequestSpec
from kilonova.notifications.payloads import scheduling
from kilonova.notifications.payloads.payload import primitive


def test_a_request_tells_what_is_asked_and_no_secret_of_its_image() -> None:
    properties = {"hw_disk_bus": "virtio", "trove": "yes", "hw_ephemeral_encryption_secret_uuid": "s", "vm_mode": "hvm"}
    spec = RequestSpec(
        Flavor("1", "m1.tiny", 1, 512, 1),
        Image("i", "cirros", properties=properties),
        instance_uuids=("u", "v"),
        requested_host="node1",
        tried=(("node2", "n2"),),
        ignore_hosts=frozenset({"b", "a"}),
    )
    said = primitive(scheduling.RequestSpecPayload.of(spec))["nova_object.data"]
    assert (said["instance_uuid"], said["num_instances"], said["ignore_hosts"]) == ("u", 2, ["a", "b"])
    assert said["requested_destination"]["nova_object.data"]["host"] == "node1"
    assert said["retry"]["nova_object.data"] == {"num_attempts": 2, "hosts": ["n2"]}
    image = said["image"]["nova_object.data"]["properties"]
    assert image["nova_object.name"] == "ImageMetaPropsPayload"
    assert image["nova_object.data"] == {"hw_disk_bus": "virtio", "hw_vm_mode": "hvm"}
