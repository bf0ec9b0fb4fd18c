# SPDX-License-Identifier: Apache-2.0
"""Cloud of simulated hosts and a libvirt host, with images whose device models only some hosts support."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from kilonova.compute.agent import Agent
from kilonova.compute.files.images import HostImages
from kilonova.compute.sessions import start_agents
from kilonova.compute.virt.host_setup import HostSetup
from kilonova.compute.virt.libvirt.driver import LibvirtDriver
from kilonova.config.host_resources import HostResourceSettings
from kilonova.config.libvirt import LibvirtSettings
from kilonova.db import compute_nodes, decisions
from kilonova.db.core import tables as t
from kilonova.db.decisions import StoredDecision
from kilonova.identifiers import new_uuid
from kilonova.messaging.messages import StepReply
from kilonova.model.ability import Ability
from kilonova.model.allocation_ratios import AllocationRatios
from kilonova.model.image import Image
from kilonova.model.instance import VmState
from kilonova.scheduler.settings import SchedulerConfig
from support.cell import Cell, host, new_cell
from support.libvirt_node import LibvirtNode
from support.waiting import wait_until

#: Weighers rank this simulated host before the libvirt host, and the other simulated host after it.
_HUGE = host("huge", vcpus=999, memory_mib=1 << 22, disk_gib=1 << 20, models={"hw_vif_model": ("virtio",)})
_TINY = host("tiny", vcpus=4, memory_mib=4096, disk_gib=9, models={"hw_vif_model": ("virtio", "lan9118")})
_RATIOS = AllocationRatios(cpu=16.0, memory=1.0, disk=1.0, reserved_memory_mib=0)


@pytest.fixture
def cloud(
    request: pytest.FixtureRequest, sqlite_template: Path, tmp_path: Path, libvirt_node: LibvirtNode
) -> Iterator[Cell]:
    """Cloud with or without the image metadata prefilter, by the parameter."""
    config = SchedulerConfig(image_metadata_prefilter=request.param)
    cell = new_cell(sqlite_template, tmp_path, _HUGE, _TINY, config=config)
    folder = libvirt_node.instances / tmp_path.name
    folder.mkdir()
    setup = HostSetup("metal", folder, HostImages(folder / "_base", max_bytes=0), _RATIOS)
    driver = LibvirtDriver(setup, LibvirtSettings(connection_uri=libvirt_node.uri, virt_type="qemu"))
    start_agents([Agent("metal", driver, cell.bus)], cell.bus)
    yield cell
    for uuid in driver.list_guests():
        driver.destroy(uuid)
    driver.close()
    cell.database.close()


def _boot(cell: Cell, model: str, count: int) -> tuple[list[str | None], list[str]]:
    """Boot servers in sequence from an image that requires a network card model.

    Returns their hosts, and the errors of failed spawns.
    """
    uuids: list[str] = []
    for _ in range(count):
        uuids += cell.boot(image=Image(new_uuid(), model, properties={"hw_vif_model": model}))
        cell.work_off()
    servers = [cell.instance(uuid) for uuid in uuids]
    assert [server.vm_state for server in servers] == [VmState.ACTIVE] * count, [server.fault for server in servers]
    return [server.host for server in servers], [reply.error or "" for reply in _failures(cell, uuids)]


def _failures(cell: Cell, uuids: Collection[str]) -> Iterator[StepReply]:
    return (reply for reply in cell.bus.replies if reply.error is not None and reply.instance_uuid in uuids)


@pytest.mark.parametrize("cloud", [True], indirect=True)
def test_with_the_prefilter_no_server_is_scheduled_anew(cloud: Cell) -> None:
    assert _boot(cloud, "e1000e", 2) == (["metal", "metal"], [])
    assert _boot(cloud, "lan9118", 2) == (["tiny", "tiny"], [])
    assert set(cloud.failed_builds().values()) == {0}


@pytest.mark.parametrize("cloud", [False], indirect=True)
def test_without_it_servers_are_undone_and_scheduled_anew(cloud: Cell, libvirt_node: LibvirtNode) -> None:
    hosts, errors = _boot(cloud, "e1000e", 2)
    assert (hosts, len(errors)) == (["metal", "metal"], 2)
    assert len(libvirt_node.guests()) == 2
    hosts, errors = _boot(cloud, "lan9118", 2)
    assert (hosts, len(errors)) == (["tiny", "tiny"], 4)
    assert all("hw_vif_model=lan9118" in error for error in errors)
    assert sum("e1000e" in error for error in errors) == 2, "the error of the libvirt host names its supported models"
    assert len(libvirt_node.guests()) == 2
    assert set(cloud.failed_builds().values()) == {0}


@pytest.mark.parametrize("cloud", [True], indirect=True)
def test_its_provider_has_the_traits_that_it_reports_and_loses_what_it_reports_no_more(
    cloud: Cell, libvirt_node: LibvirtNode, tmp_path: Path
) -> None:
    before = _traits(cloud, "metal")
    assert {"COMPUTE_NODE", "OWNER_NOVA", "COMPUTE_NET_VIF_MODEL_E1000E", "COMPUTE_IMAGE_TYPE_VMDK"} <= before
    resources = HostResourceSettings(image_type_exclude_list=("vmdk",))
    folder = libvirt_node.instances / tmp_path.name
    setup = HostSetup("metal", folder, HostImages(folder / "_base", max_bytes=0), _RATIOS, resources)
    driver = LibvirtDriver(setup, LibvirtSettings(connection_uri=libvirt_node.uri, virt_type="qemu"))
    start_agents([Agent("metal", driver, cloud.bus)], cloud.bus)
    cloud.work_off()
    driver.close()
    assert before - _traits(cloud, "metal") == {"COMPUTE_IMAGE_TYPE_VMDK"}


@pytest.mark.parametrize("cloud", [False], indirect=True)
def test_a_server_of_the_libvirt_host_is_offered_no_simulated_one(cloud: Cell, libvirt_node: LibvirtNode) -> None:
    """The simulated hosts have room for it, and weighers prefer one of them."""
    image = Image(new_uuid(), "plain", properties={"os_shutdown_timeout": "1"})  # no system that would shut down
    (uuid,) = cloud.boot(image=image, force_host="metal")
    cloud.work_off()
    assert (cloud.instance(uuid).vm_state, cloud.instance(uuid).host) == (VmState.ACTIVE, "metal")
    cloud.resize(uuid, stays=True)
    cloud.work_off()
    assert (cloud.instance(uuid).vm_state, cloud.instance(uuid).host) == (VmState.RESIZED, "metal")
    assert not list(_failures(cloud, [uuid])), "no failed attempt on another host"
    assert _newest_decision(cloud, uuid, 2) == {"hypervisor_type": 2}
    assert len(libvirt_node.guests()) == 1
    cloud.revert(uuid)
    cloud.work_off()
    cloud.migrate(uuid)
    cloud.work_off()
    assert (cloud.instance(uuid).vm_state, cloud.instance(uuid).host) == (VmState.ACTIVE, "metal")
    assert not list(_failures(cloud, [uuid])), "no failed attempt on any host"
    assert _newest_decision(cloud, uuid, 3) == {"ignore_hosts": 1, "hypervisor_type": 2}


@pytest.mark.parametrize("cloud", [True], indirect=True)
def test_the_libvirt_host_reports_what_it_can_do(cloud: Cell) -> None:
    with cloud.database.read() as connection:
        (node,) = compute_nodes.list_by_host(connection, "metal")
    assert node.capabilities.hypervisor_type == "QEMU"
    assert {ability for ability in Ability if not node.capabilities.can(ability)} == {
        Ability.COLD_MIGRATE,
        Ability.LIVE_MIGRATE,
    }
    before = replace(node.capabilities, abilities=None)
    assert {ability for ability in Ability if before.can(ability)} == {*(node.capabilities.abilities or ())}, (
        "a report without abilities, from an older agent, counts as the same"
    )


def _newest_decision(cell: Cell, uuid: str, number: int) -> dict[str, int]:
    """Wait until ``number`` decisions are stored; return how many hosts each rule removed in the newest."""

    def found() -> tuple[StoredDecision, ...]:
        with cell.database.read() as connection:
            return decisions.find(connection, uuid)

    wait_until(lambda: len(found()) == number, f"{number} decisions to be stored")
    steps = found()[0].body["steps"]
    return {rule: hosts_in - hosts_out for rule, _, hosts_in, hosts_out in steps if hosts_in > hosts_out}


def _traits(cell: Cell, host_name: str) -> set[str]:
    """Return the traits of a host's resource provider."""
    of_host = sa.select(t.compute_nodes.c.uuid).where(t.compute_nodes.c.host == host_name)
    wanted = (
        sa.select(t.traits.c.name)
        .join(t.resource_provider_traits, t.resource_provider_traits.c.trait_id == t.traits.c.id)
        .join(t.resource_providers, t.resource_providers.c.id == t.resource_provider_traits.c.resource_provider_id)
        .where(t.resource_providers.c.uuid.in_(of_host))
    )
    with cell.database.read() as connection:
        return set(connection.execute(wanted).scalars())
