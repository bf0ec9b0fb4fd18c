# SPDX-License-Identifier: Apache-2.0
"""What an agent process reports of its driver is known to the API and the scheduler before anything is touched."""

from collections.abc import Callable

import pytest

from agents.cloud import AgentCloud
from kilonova.model.instance import VmState

pytestmark = pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
NewCloud = Callable[..., AgentCloud]
#: Like those of a libvirt host.
LIKE_LIBVIRT = "capabilities: {hypervisor_type: QEMU, abilities: [pause, reboot, rebuild, resize-same-host]}"
STAYS = "[DEFAULT]\nallow_resize_to_same_host = true\n"


def test_an_agent_reports_what_its_driver_lacks_and_nothing_is_tried(agent_cloud: NewCloud) -> None:
    cloud = agent_cloud(("east",), ("west",), hosts=f"vcpus: 16, memory_mib: 32768, {LIKE_LIBVIRT}", more=STAYS)
    operator = cloud.control.operator
    for host in operator.get("/hosts").body["hosts"]:
        (hypervisor,) = host["hypervisors"]
        assert hypervisor["abilities"] == ["pause", "reboot", "rebuild", "resize-same-host"], host
    server = cloud.control.boot(availability_zone=None)
    uuid, home = server["id"], server["OS-EXT-SRV-ATTR:host"]
    for body, status in (
        ({"migrate": None}, 409),
        ({"os-migrateLive": {"host": None, "block_migration": "auto"}}, 400),
        ({"suspend": None}, 409),
        ({"rescue": None}, 501),
        ({"os-getConsoleOutput": {}}, 501),
    ):
        answer = cloud.control.admin.post(f"/servers/{uuid}/action", body)
        assert answer.status == status, (body, answer.raw)
    assert cloud.control.admin.get(f"/servers/{uuid}/migrations").body["migrations"] == []
    assert cloud.act(uuid, {"pause": None})["status"] == "PAUSED"
    assert cloud.act(uuid, {"unpause": None})["status"] == "ACTIVE"
    resized = cloud.act(uuid, {"resize": {"flavorRef": "2"}})
    assert (resized["status"], resized["OS-EXT-SRV-ATTR:host"]) == ("VERIFY_RESIZE", home)
    assert cloud.act(uuid, {"revertResize": None})["status"] == "ACTIVE"
    assert cloud.check() == {uuid: VmState.ACTIVE}
