# SPDX-License-Identifier: Apache-2.0
"""VNC server of a real guest, viewed through the console proxy."""

import struct
from pathlib import Path

from kilonova.compute.agent import Agent
from kilonova.compute.files.images import HostImages
from kilonova.compute.sessions import start_agents
from kilonova.compute.virt.host_setup import HostSetup
from kilonova.compute.virt.libvirt.driver import LibvirtDriver
from kilonova.config.libvirt import LibvirtSettings
from kilonova.identifiers import new_uuid
from kilonova.model.allocation_ratios import AllocationRatios
from kilonova.model.console import ConsoleProtocol
from kilonova.model.image import Image
from kilonova.model.instance import VmState
from support.cell import new_cell
from support.console_hosts import TOKEN, proxy_before
from support.libvirt_node import LibvirtNode
from support.viewers import connect

_RATIOS = AllocationRatios(cpu=16.0, memory=1.0, disk=1.0, reserved_memory_mib=0)


def test_a_real_screen(sqlite_template: Path, tmp_path: Path, libvirt_node: LibvirtNode) -> None:
    cell = new_cell(sqlite_template, tmp_path)
    folder = libvirt_node.instances / tmp_path.name
    folder.mkdir()
    setup = HostSetup("metal", folder, HostImages(folder / "_base", max_bytes=0), _RATIOS)
    driver = LibvirtDriver(setup, LibvirtSettings(connection_uri=libvirt_node.uri, virt_type="qemu"))
    try:
        start_agents([Agent("metal", driver, cell.bus)], cell.bus)
        (uuid,) = cell.boot(image=Image(new_uuid(), "plain"))
        cell.work_off()
        server = cell.instance(uuid)
        assert server.vm_state is VmState.ACTIVE, server.fault
        end = driver.console_end(uuid, ConsoleProtocol.VNC)
        with proxy_before(end.port, ConsoleProtocol.VNC) as (_, port):
            viewer = connect(port, f"/?token={TOKEN}")
            assert viewer.read(12) == b"RFB 003.008\n"
            viewer.send(b"RFB 003.008\n")
            assert viewer.read(2) == bytes([1, 1])
            viewer.send(bytes([1]))
            assert viewer.read(4) == bytes(4)
            viewer.send(bytes([1]))
            width, height = struct.unpack(">HH", viewer.read(4))
            viewer.read(16)
            (length,) = struct.unpack(">I", viewer.read(4))
            assert viewer.read(length).startswith(b"QEMU (")
            viewer.send(struct.pack(">BBHHHH", 3, 0, 0, 0, width, height))
            kind, rectangles = struct.unpack(">BxH", viewer.read(4))
            assert (kind, rectangles > 0) == (0, True)
            driver.destroy(uuid)
            assert viewer.end() == (1000, "The console has ended.")
            viewer.close()
    finally:
        for uuid in driver.list_guests():
            driver.destroy(uuid)
        driver.close()
        cell.database.close()
