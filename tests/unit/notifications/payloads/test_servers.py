# SPDX-License-Identifier: Apache-2.0
"""Payloads about servers, with all image properties."""

from kilonova.model.instance import LockedBy
from kilonova.model.requester import Requester
from kilonova.notifications.payloads import servers
from kilonova.notifications.payloads.payload import primitive
from support.notified_events import stopped_server


def test_a_server_is_told_with_what_its_image_says_by_any_name() -> None:
    image_properties = {"architecture": "x86_64", "os_type": "linux", "kernel_id": "k"}
    instance = stopped_server(image_properties=image_properties, locked_by=LockedBy.ADMIN, locked_reason="r")
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
