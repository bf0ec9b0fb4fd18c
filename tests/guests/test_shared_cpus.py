# SPDX-License-Identifier: Apache-2.0
"""Guests run on the CPUs that the operator reserves for them."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import libvirt
import pytest

from kilonova.compute.files.images import HostImages
from kilonova.compute.virt.host_setup import HostSetup
from kilonova.compute.virt.libvirt.driver import LibvirtDriver
from kilonova.config.host_resources import HostResourceSettings
from kilonova.config.libvirt import LibvirtSettings
from kilonova.model.instance import GuestSpec
from support.guest_descriptions import guest_of
from support.libvirt_node import LibvirtNode


@pytest.fixture
def driver(libvirt_node: LibvirtNode, tmp_path: Path) -> Iterator[LibvirtDriver]:
    """Driver of a host with one CPU for guests."""
    folder = libvirt_node.instances / tmp_path.name
    folder.mkdir()
    resources = HostResourceSettings(cpu_shared_set=frozenset({0}))
    setup = HostSetup("metal", folder, HostImages(folder / "_base", max_bytes=0), resources=resources)
    made = LibvirtDriver(setup, LibvirtSettings(connection_uri=libvirt_node.uri, virt_type="qemu"))
    yield made
    for uuid in made.list_guests():
        made.destroy(uuid)
    made.close()


@pytest.fixture
def guest() -> GuestSpec:
    uuid = str(uuid4())
    return guest_of(uuid=uuid, name=f"instance-{uuid[:8]}", vcpus=2, memory_mib=32)


def test_vcpus_float_on_the_shared_cpus_alone(
    driver: LibvirtDriver, libvirt_node: LibvirtNode, guest: GuestSpec
) -> None:
    driver.spawn(guest)
    connection = libvirt.open(libvirt_node.uri)
    domain = connection.lookupByUUIDString(guest.uuid)
    used = [[cpu for cpu, runs in enumerate(vcpu) if runs] for vcpu in domain.vcpuPinInfo()]
    connection.close()
    assert used == [[0], [0]]
