# SPDX-License-Identifier: Apache-2.0
"""Payloads about servers, with all image properties."""

from kilonova.model.instance import LockedBy
from kilonova.model.requester import Requester
from kilonova.notifications.payloads import servers
from kilonova.notifications.payloads.payload import primitive
from support.interfaces import interface
from support.notified_events import stopped_server


def test_a_server_is_told_with_what_its_image_says_by_any_name() -> None:
    image_properties = {"architecture": "x86_64", "os_type": "linux", "kernel_id": "k"}
    instance = stopped_server(image_properties=image_properties, locked_by=LockedBy.ADMIN, locked_reason="r")
    common = servers.common_fields(instance, (), Requester("req", "u", "p"), bdms=True, shares=False)
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
    nobody = servers.common_fields(instance, (), None, bdms=False, shares=True)
    assert (nobody["request_id"], nobody["action_initiator_user"], nobody["block_devices"]) == (None, None, None)


def test_fixed_addresses_are_told_with_their_interface() -> None:
    vif = interface("private", "10.0.0.5", "fd00::5", floating=("172.24.4.9",), port_id="port-1")
    common = servers.common_fields(stopped_server(), (vif,), None, bdms=False, shares=False)
    said = primitive(servers.InstanceActionPayload(**common, fault=None))["nova_object.data"]["ip_addresses"]
    assert [(each["nova_object.name"], each["nova_object.version"]) for each in said] == [("IpPayload", "1.0")] * 2
    assert said[0]["nova_object.data"] == {
        "label": "private",
        "mac": vif.mac,
        "meta": {},
        "port_uuid": "port-1",
        "version": 4,
        "address": "10.0.0.5",
        "device_name": "tapport-1",
    }
    assert (said[1]["nova_object.data"]["version"], said[1]["nova_object.data"]["address"]) == (6, "fd00::5")
