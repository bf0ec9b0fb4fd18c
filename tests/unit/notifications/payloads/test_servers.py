# SPDX-License-Identifier: Apache-2.0
"""The form of payloads: names, versions and fields are those that consumers of Nova's notifications know."""

from dataclasses import fields

import pytest

from kilonova.conductor.workflow_engine.workflow import Failure
from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.model.instance import Instance, LockedBy, PowerState, VmState
from kilonova.model.request_spec import RequestSpec
from kilonova.model.requester import Requester
from kilonova.notifications.payloads import faults, resources, scheduling, servers, unversioned
from kilonova.notifications.payloads.payload import Payload, primitive

#: Object → version and number of fields, as the last release of Nova has them.
VERSIONS: dict[str, tuple[str, int]] = {
    "AggregateCachePayload": ("1.0", 8),
    "AggregatePayload": ("1.1", 5),
    "AuditPeriodPayload": ("1.0", 2),
    "ComputeTaskPayload": ("1.0", 4),
    "DestinationPayload": ("1.0", 4),
    "ExceptionPayload": ("1.1", 5),
    "FlavorPayload": ("1.4", 14),
    "ImageMetaPayload": ("1.0", 18),
    "InstanceActionPayload": ("1.9", 37),
    "InstanceActionRebuildPayload": ("1.10", 38),
    "InstanceActionRescuePayload": ("1.4", 38),
    "InstanceActionResizePrepPayload": ("1.4", 38),
    "InstanceActionSnapshotPayload": ("1.10", 38),
    "InstanceCreatePayload": ("1.13", 41),
    "InstanceExistsPayload": ("2.1", 37),
    "InstancePayload": ("1.9", 36),
    "InstanceStateUpdatePayload": ("1.0", 4),
    "InstanceUpdatePayload": ("2.1", 40),
    "KeypairPayload": ("1.0", 5),
    "RequestSpecPayload": ("1.1", 18),
    "SchedulerRetriesPayload": ("1.0", 2),
    "ServerGroupPayload": ("1.1", 9),
    "ServiceStatusPayload": ("1.1", 11),
}


def kinds() -> dict[str, type[Payload]]:
    return {
        name: kind
        for module in (resources, servers, scheduling, faults)
        for name, kind in vars(module).items()
        if isinstance(kind, type) and issubclass(kind, Payload) and kind is not Payload
    }


def test_every_payload_has_its_version_and_fields() -> None:
    assert {name: (kind.VERSION, len(fields(kind))) for name, kind in kinds().items()} == VERSIONS


def server(**facts: object) -> Instance:
    common = {"flavor": Flavor("1", "m1.tiny", 1, 512, 1, 2), "power_state": PowerState.SHUTDOWN, **facts}
    return Instance(7, "u", "web", "wonder", "alice", VmState.STOPPED, **common)  # type: ignore[arg-type]


def test_a_server_is_told_with_what_its_image_says_by_any_name() -> None:
    image_properties = {"architecture": "x86_64", "os_type": "linux", "kernel_id": "k"}
    instance = server(image_properties=image_properties, locked_by=LockedBy.ADMIN, locked_reason="r")
    common = servers.common_fields(instance, Requester("req", "u", "p"), bdms=True, shares=False)
    said = primitive(servers.InstanceActionPayload(**common, fault=None))["nova_object.data"]
    assert (said["architecture"], said["os_type"], said["kernel_id"], said["ramdisk_id"]) == (
        "x86_64",
        "linux",
        "k",
        "",
    )
    assert (said["power_state"], said["locked"], said["locked_reason"]) == ("shutdown", True, "r")
    assert (said["block_devices"], said["shares"], said["ip_addresses"]) == ([], None, [])
    assert said["flavor"]["nova_object.version"] == "1.4"
    nobody = servers.common_fields(instance, None, bdms=False, shares=True)
    assert (nobody["request_id"], nobody["action_initiator_user"], nobody["block_devices"]) == (None, None, None)


def test_an_unversioned_server_has_the_odd_forms_that_consumers_know() -> None:
    said = unversioned.server(server(), "http://glance/images/i")
    assert (said["disk_gb"], said["progress"], said["cell_name"], said["state_description"]) == (3, "", "", "")
    assert (said["terminated_at"], said["image_ref_url"]) == ("", "http://glance/images/i")
    assert unversioned.server(server(progress=50), "")["progress"] == 50


@pytest.mark.parametrize(
    ("failure", "name"),
    [
        (Failure("No valid host", step="claim"), "NoValidHost"),
        (Failure("gone", unreachable=True, step="spawn"), "HostUnreachable"),
        (Failure("disk", host="node1", step="spawn"), "DriverError"),
    ],
)
def test_a_fault_says_what_kind_it_is(failure: Failure, name: str) -> None:
    said = faults.ExceptionPayload.of("hard-reboot", failure)
    assert (said.exception, said.module_name) == (name, "kilonova.conductor.workflows.hard_reboot")
    assert (said.exception_message, said.function_name) == (failure.message, failure.step)


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
