# SPDX-License-Identifier: Apache-2.0
"""Serial consoles: users type into a guest's first serial port while its console log continues."""

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4
from xml.etree import ElementTree as ET

import libvirt
import pytest

from kilonova.cli.up.tiny_image import tiny_image
from kilonova.compute.files.images import HostImages
from kilonova.compute.virt.host_setup import HostSetup
from kilonova.compute.virt.libvirt.driver import LibvirtDriver
from kilonova.config.consoles import ConsoleSettings
from kilonova.config.libvirt import LibvirtSettings
from kilonova.errors import Unsupported
from kilonova.model.console import ConsoleProtocol
from support.guest_descriptions import guest_of
from support.libvirt_node import LibvirtNode
from support.waiting import wait_until


@pytest.fixture
def driver(libvirt_node: LibvirtNode, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LibvirtDriver]:
    """Driver with or without serial consoles, by the parameter."""
    folder = libvirt_node.instances / tmp_path.name
    folder.mkdir()
    made = LibvirtDriver(
        HostSetup("metal", folder, HostImages(folder / "_base", max_bytes=0)),
        LibvirtSettings(connection_uri=libvirt_node.uri, virt_type="qemu"),
        ConsoleSettings(vnc_enabled=False, serial_enabled=request.param),
    )
    yield made
    for uuid in made.list_guests():
        made.destroy(uuid)
    made.close()


def started(driver: LibvirtDriver, node: LibvirtNode, folder: Path) -> str:
    """Start a guest that counts its boots, and resets itself when it receives the key r."""
    uuid = str(uuid4())
    driver.spawn(guest_of(uuid=uuid, name=f"instance-{uuid[:8]}", memory_mib=32))
    driver.stop(uuid)
    image = folder / "tiny.raw"
    image.write_bytes(tiny_image())
    connection = libvirt.open(node.uri)
    disk = ET.fromstring(connection.lookupByUUIDString(uuid).XMLDesc()).find("devices/disk/source")
    connection.close()
    assert disk is not None
    subprocess.run(["qemu-img", "convert", "-O", "qcow2", image, str(disk.get("file"))], check=True)
    driver.start(uuid)
    wait_until(lambda: "boot 1" in driver.console_output(uuid, None), "the guest to boot")
    return uuid


@pytest.mark.parametrize("driver", [True], indirect=True)
def test_what_is_typed_reaches_the_guest_and_what_it_says_is_kept(
    driver: LibvirtDriver, libvirt_node: LibvirtNode, tmp_path: Path
) -> None:
    first, second = (started(driver, libvirt_node, tmp_path) for _ in range(2))
    ends = [driver.console_end(uuid, ConsoleProtocol.SERIAL) for uuid in (first, second)]
    assert ends[0] != ends[1]
    with socket.create_connection((ends[1].address, ends[1].port), timeout=20) as user:
        user.sendall(b"r")
        heard = b""
        while b"boot 2" not in heard:
            more = user.recv(4096)
            assert more, heard
            heard += more
    wait_until(lambda: "boot 2" in driver.console_output(second, None), "boot 2 in the console log")
    assert "boot 2" not in driver.console_output(first, None)


@pytest.mark.parametrize("driver", [False], indirect=True)
def test_without_the_option_there_is_only_the_log(
    driver: LibvirtDriver, libvirt_node: LibvirtNode, tmp_path: Path
) -> None:
    uuid = started(driver, libvirt_node, tmp_path)
    for protocol in (ConsoleProtocol.SERIAL, ConsoleProtocol.VNC):
        with pytest.raises(Unsupported, match="has no"):
            driver.console_end(uuid, protocol)
