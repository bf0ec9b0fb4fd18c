# SPDX-License-Identifier: Apache-2.0
"""An image that names a network card which only one of two hosts has, with and without the prefilter."""

import time
from typing import Any

import pytest

from kilonova.cli.wiring.control import image_id
from support.control import Control, NewControl

SCENARIO = """
images:
  - {name: cirros, properties: {hw_vif_model: e1000}}
  - {name: misspelt, properties: {hw_disk_bus: SCSI}}
  - {name: legacy, properties: {hw_tpm_version: "1.2"}}
hosts:
  - {name: new, models: {hw_vif_model: [virtio]}}
  - {name: old, vcpus: 4, memory_mib: 8192, models: {hw_vif_model: [virtio, VirtualE1000]}}
"""


@pytest.fixture(params=[True, False], ids=["prefilter", "no prefilter"])
def prefilter(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def control(new_control: NewControl, prefilter: bool) -> Control:
    return new_control(scenario=SCENARIO, more=f"[scheduler]\nimage_metadata_prefilter = {str(prefilter).lower()}\n")


def decisions_of(control: Control, server: str, count: int) -> list[Any]:
    """Return the decisions about a server once there are so many: they are stored in the background."""
    operator = control.operator
    deadline = time.monotonic() + 5
    while True:
        answer = operator.get(f"/decisions/{server}")
        found = answer.body["decisions"] if answer.status == 200 else []
        if len(found) >= count or time.monotonic() > deadline:
            return list(found)
        time.sleep(0.01)


def test_a_server_gets_there_at_the_first_attempt_or_by_way_of_a_failed_spawn(
    control: Control, prefilter: bool
) -> None:
    server = control.boot()
    assert (server["status"], server["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", "old")
    attempts = ["old"] if prefilter else ["new", "old"]
    decisions = decisions_of(control, server["id"], len(attempts))
    assert sorted(each["chosen"] for each in decisions) == sorted(attempts)
    rules = {step["rule"] for each in decisions for step in each["steps"]}
    assert ("transform_image_metadata" in rules) == prefilter
    control.check()


def test_the_fault_of_a_server_that_ran_out_of_hosts_says_what_is_not_supported(
    control: Control, prefilter: bool
) -> None:
    server = control.boot(control.admin, availability_zone="nova:new")
    assert server["status"] == "ERROR"
    expected = (
        "No valid host was found. The requested host was rejected: lacks a device model that the image requires. "
        "force_hosts: 1 of 2 hosts, transform_image_metadata: 1 of 1 hosts"
        if prefilter
        else "The hypervisor does not support hw_vif_model=e1000."
    )
    assert server["fault"]["message"] == expected
    control.check()


def test_what_no_host_can_make_is_refused_before_anything_is_stored(control: Control) -> None:
    refused = control.ask(imageRef=image_id("misspelt"))
    assert refused.status == 400
    assert "hw_disk_bus=SCSI" in refused.body["badRequest"]["message"]
    control.add_flavor("2")
    control.admin.post("/flavors/2/os-extra_specs", {"extra_specs": {"hw:tpm_version": "2.0"}})
    contradicting = control.ask(imageRef=image_id("legacy"), flavorRef="2")
    assert (contradicting.status, "hw_tpm_version" in contradicting.body["badRequest"]["message"]) == (400, True)
    assert control.admin.get("/servers", all_tenants="1").body["servers"] == []
