# SPDX-License-Identifier: Apache-2.0
"""Whole cloud inside the test process with one host of real guests, on the libvirtd of the session."""

import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import libvirt

from kilonova.cli.up.tiny_image import tiny_image
from kilonova.compute.files.folders import OWNER
from support.api_client import Answer, Client
from support.control import Control, start_control
from support.glance_stand_in import ImageCloud, image_cloud
from support.libvirt_node import LibvirtNode
from support.waiting import wait_until

HOST = "node1"
OBEYS, IGNORES = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
#: Maximum wait for any libvirt operation, in seconds.
PATIENCE_S = 30.0
_BOOT = re.compile(r"boot (\d+), disks")
_Q = 16
_DISK = {"disk_format": "raw", "container_format": "bare"}


def options_of(node: LibvirtNode, instances: Path) -> str:
    """Return the configuration of a process that serves the host."""
    return (
        f"[DEFAULT]\ncompute_driver = libvirt.LibvirtDriver\nhost = {HOST}\n"
        f"instances_path = {instances}\ncpu_allocation_ratio = 16\nreserved_host_memory_mb = 0\n"
        f"[libvirt]\nconnection_uri = {node.uri}\nvirt_type = qemu\n"
    )


@dataclass
class RealCloud:
    """Cloud with one control process, ``control``."""

    node: LibvirtNode
    folder: Path
    images: ImageCloud
    control: Control = field(init=False)
    is_up: bool = False

    @property
    def instances(self) -> Path:
        return self.folder / "instances"

    @property
    def user(self) -> Client:
        return self.control.admin

    def start(self, options: str = "", *, scenario: str = "hosts: []\n", serves_host: bool = True) -> None:
        """Start the control process, also on existing data.

        ``options``: additional configuration. ``serves_host``: if False, an agent process serves the host.
        """
        host = f"{options_of(self.node, self.instances)}[DEFAULT]\ncontrol_serves_host = true\n" if serves_host else ""
        self.control = start_control(self.folder, scenario=scenario, more=f"{self.images.options}{host}{options}")
        self.images.application = self.control.process.application
        self.is_up = True

    def stop(self) -> None:
        if self.is_up:
            self.is_up = False
            self.control.process.close()

    # --- servers ------------------------------------------------------------------------------------------------------

    def ask(self, name: str = "vm", image: str = OBEYS, **changed: Any) -> str:
        """Request a server, and return its uuid."""
        answer = self.control.ask(self.user, name=name, imageRef=image, networks="none", **changed)
        assert answer.status == 202, answer.body
        return str(answer.body["server"]["id"])

    def boot(self, name: str = "vm", image: str = OBEYS, **changed: Any) -> str:
        """Request a server, and wait until its guest has counted its first boot."""
        uuid = self.ask(name, image, **changed)
        self.until(uuid, "ACTIVE")
        self.until_booted(uuid, 1)
        return uuid

    def act(self, uuid: str, action: str, **facts: Any) -> Answer:
        answer = self.user.post(f"/servers/{uuid}/action", {action: facts or None})
        assert answer.status in {202, 204, 200}, answer.body
        return answer

    def server(self, uuid: str) -> dict[str, Any]:
        shown: dict[str, Any] = self.user.get(f"/servers/{uuid}").body["server"]
        return shown

    def until(self, uuid: str, status: str, *, at_most_s: float = PATIENCE_S) -> dict[str, Any]:
        """Wait until a server has settled in a status."""
        seen: dict[str, Any] = {}

        def is_there() -> bool:
            seen.update(self.server(uuid))
            return bool(seen["status"] == status and seen["OS-EXT-STS:task_state"] is None)

        try:
            wait_until(is_there, f"server {uuid} to be {status}", at_most_s=at_most_s, every_s=0.02)
        except AssertionError as error:
            shown = {name: seen.get(name) for name in ("status", "OS-EXT-STS:task_state", "fault")}
            raise AssertionError(f"{error}: {shown}") from None
        return seen

    def remove(self, *uuids: str) -> None:
        for uuid in uuids:
            assert self.user.delete(f"/servers/{uuid}").status == 204
        gone = lambda: all(self.user.get(f"/servers/{uuid}").status == 404 for uuid in uuids)  # noqa: E731
        wait_until(gone, "all servers to be deleted", at_most_s=PATIENCE_S)

    # --- guests -------------------------------------------------------------------------------------------------------

    def domain(self, uuid: str) -> Any:
        """Return a guest's libvirt domain, for actions at the host without Kilonova."""
        return libvirt.open(self.node.uri).lookupByUUIDString(uuid)

    def press_q(self, uuid: str) -> None:
        """Make a guest power itself off, even if it ignores the ACPI power button."""
        self.domain(uuid).sendKey(libvirt.VIR_KEYCODE_SET_LINUX, 50, [_Q], 1, 0)

    def server_name(self, uuid: str) -> str:
        """Return the hypervisor's name of a guest."""
        return str(self.server(uuid)["OS-EXT-SRV-ATTR:instance_name"])

    def boots(self, uuid: str) -> int:
        """Return the number of boots that a guest has counted on its disk."""
        log = self.instances / uuid / "console.log"
        said = _BOOT.findall(log.read_text("latin-1")) if log.exists() else []
        return int(said[-1]) if said else 0

    def until_booted(self, uuid: str, times: int) -> None:
        wait_until(lambda: self.boots(uuid) >= times, f"boot {times} of guest {uuid}", at_most_s=PATIENCE_S)
        assert self.boots(uuid) == times

    def left(self) -> list[str]:
        """Return the names of the remaining domains and guest folders."""
        connection = libvirt.open(self.node.uri)
        folders = {each.name for each in self.instances.iterdir()} - {"_base", "snapshots", OWNER}
        return sorted(folders | {each.name() for each in connection.listAllDomains()})


@contextmanager
def real_cloud(node: LibvirtNode, template: Path, folder: Path) -> Iterator[RealCloud]:
    """Yield a cloud that is not started, and remove its remains at the end.

    ``template``: an upgraded database.
    """
    shutil.copy(template, folder / "kilonova.db")
    (folder / "instances").mkdir()
    with ExitStack() as end:
        images = end.enter_context(image_cloud({OBEYS: tiny_image(), IGNORES: tiny_image(obeys_acpi=False)}))
        images.glance.properties = {OBEYS: _DISK, IGNORES: _DISK}
        cloud = RealCloud(node, folder, images)
        end.callback(_clear, cloud)
        end.callback(cloud.stop)
        yield cloud


def _clear(cloud: RealCloud) -> None:
    if cloud.node.ended():
        cloud.node.start()
    connection = libvirt.open(cloud.node.uri)
    for domain in connection.listAllDomains():
        if domain.isActive():
            domain.destroy()
        domain.undefineFlags(libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE | libvirt.VIR_DOMAIN_UNDEFINE_NVRAM)
    connection.close()
