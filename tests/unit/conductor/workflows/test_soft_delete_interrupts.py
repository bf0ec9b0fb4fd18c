# SPDX-License-Identifier: Apache-2.0
"""Soft deletes that interrupt other workflows at any moment: the server is kept whole, and can be restored."""

from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from kilonova.db import instances, workflows
from kilonova.model.instance import VmState
from kilonova.model.network_request import RequestedNetwork
from support.cell import IMAGE, Cell, host, networks, new_cell
from support.fake_neutron import FakeNeutron
from support.folder_images import FolderImages
from support.network_agents import add_agent
from support.networks import check_networks
from support.soft_deletes import fail, soft_delete

PUBLIC = {"provider:network_type": "flat", "provider:physical_network": "public"}
#: More pieces of work than any of the workflows has.
_MANY = 200


class Cloud:
    """Two hosts, and a server on node1 whose port takes bandwidth of its host."""

    def __init__(self, template: Path, folder: Path) -> None:
        folder.mkdir()
        self.neutron = FakeNeutron()
        images = FolderImages(folder / "images")
        images.add(IMAGE.id, b"what servers are made of")
        self.cell = new_cell(template, folder, host("node1"), host("node2"), neutron=self.neutron, images=images)
        for each in self.cell.hosts:
            add_agent(self.cell.database, each.name, packets=100)
        self.network = self.neutron.make_network(**PUBLIC)
        self.asked = {self.network: self.port()}
        wanted = networks(self.network, ports=self.asked, demands=True)
        (self.uuid,) = self.cell.boot(networks=wanted, force_host="node1")
        self.cell.work_off()

    def port(self) -> str:
        policy = self.neutron.make_policy(egress=1_000)
        return self.neutron.make_port(self.network, "wonder", qos_policy_id=policy)

    def begin(self, act: Callable[[Cell, str], object], before: Callable[[Cell, str], object] | None = None) -> None:
        if before is not None:
            before(self.cell, self.uuid)
            self.cell.work_off()
        act(self.cell, self.uuid)

    def check(self) -> dict[str, str]:
        self.cell.work_off()
        check_networks(self.cell)
        if self.cell.image_remover is not None:
            self.cell.image_remover.turn()
        return self.cell.check()


NewCloud = Callable[[], Cloud]


@pytest.fixture
def cloud_of(sqlite_template: Path, tmp_path: Path) -> NewCloud:
    count = iter(range(_MANY))
    return lambda: Cloud(sqlite_template, tmp_path / str(next(count)))


def attach(cell: Cell, uuid: str) -> None:
    neutron = cell.neutron
    assert isinstance(neutron, FakeNeutron)
    (vif,) = cell.interfaces(uuid)
    port = neutron.make_port(vif.network.id, "wonder", qos_policy_id=neutron.make_policy(egress=500))
    cell.attach(uuid, RequestedNetwork(network_id=vif.network.id, port_id=port, demands=True))


def detach(cell: Cell, uuid: str) -> None:
    (vif,) = cell.interfaces(uuid)
    cell.detach(uuid, vif.port_id)


def shelve(cell: Cell, uuid: str) -> None:
    cell.shelve(uuid, offload=False)


def hard_reboot(cell: Cell, uuid: str) -> None:
    cell.power(uuid, "hard-reboot")


def stop(cell: Cell, uuid: str) -> None:
    cell.power(uuid, "stop")


def is_under_way(cloud: Cloud, steps: int) -> bool:
    """Run ``steps`` pieces of work; return whether any is left."""
    return all(cloud.cell.bus.step() for _ in range(steps)) and bool(cloud.cell.bus.waiting["work"])


@pytest.mark.parametrize(
    ("before", "act"),
    [
        (Cell.resize, Cell.revert),
        (Cell.resize, Cell.confirm),
        (None, Cell.resize),
        (None, Cell.live_migrate),
        (None, attach),
        (None, detach),
        (None, hard_reboot),
        (None, stop),
        (None, Cell.rebuild),
        (None, Cell.create_image),
        (None, shelve),
        (shelve, Cell.unshelve),
        (soft_delete, Cell.restore),
    ],
)
def test_a_server_is_kept_whole(
    cloud_of: NewCloud, before: Callable[[Cell, str], object] | None, act: Callable[[Cell, str], object]
) -> None:
    for steps in range(_MANY):
        cloud = cloud_of()
        cloud.begin(act, before)
        if not is_under_way(cloud, steps):
            break
        cloud.cell.delete(cloud.uuid, soft=True)
        assert cloud.check() == {cloud.uuid: VmState.SOFT_DELETED}, steps
        cloud.cell.restore(cloud.uuid)
        assert cloud.check() == {cloud.uuid: VmState.ACTIVE}, steps
        cloud.cell.database.close()
    assert steps > 2


def test_a_soft_delete_that_fails_leaves_the_result_of_the_workflow(
    cloud_of: NewCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud = cloud_of()
    cloud.begin(Cell.revert, Cell.resize)
    monkeypatch.setattr(cloud.cell.drivers["node1"], "stop", fail)
    soft_delete(cloud.cell, cloud.uuid)
    assert cloud.check() == {cloud.uuid: VmState.ACTIVE}
    assert cloud.cell.instance(cloud.uuid).task_state is None
    assert cloud.cell.open_migration(cloud.uuid) is None


def test_an_evacuated_server_is_kept_whole_or_deleted(cloud_of: NewCloud) -> None:
    found = set()
    for steps in range(_MANY):
        cloud = cloud_of()
        cloud.cell.bus.cut_off.add("node1")
        cloud.begin(Cell.evacuate)
        if not is_under_way(cloud, steps):
            break
        soft_delete(cloud.cell, cloud.uuid)
        cloud.cell.reconnect()
        states = cloud.check()
        assert states in ({}, {cloud.uuid: VmState.SOFT_DELETED}), steps
        if states:
            cloud.cell.restore(cloud.uuid)
            assert cloud.check() == {cloud.uuid: VmState.ACTIVE}, steps
        found.add(bool(states))
    assert False in found


@pytest.mark.parametrize("act", [Cell.rebuild, Cell.create_image, stop])
def test_the_interrupts_of_the_release_before_are_carried_out_as_before(
    cloud_of: NewCloud, act: Callable[[Cell, str], object]
) -> None:
    for steps in range(_MANY):
        cloud = cloud_of()
        cloud.begin(act)
        if not is_under_way(cloud, steps):
            break
        cloud.cell.delete(cloud.uuid, soft=True)
        cloud.cell.database.write(lambda tx: tx.execute(sa.text("UPDATE workflows SET exact_interrupt = NULL")))
        assert cloud.check() == {cloud.uuid: VmState.SOFT_DELETED}, steps
        cloud.cell.database.close()
    assert steps > 2


def test_the_state_that_a_reset_has_set_does_not_end_a_workflow_halfway(cloud_of: NewCloud) -> None:
    cloud = cloud_of()
    cloud.begin(Cell.revert, Cell.resize)
    soft_delete(cloud.cell, cloud.uuid)
    cloud.cell.database.write(lambda tx: instances.change(tx, cloud.uuid, task_state=None))
    cloud.check()
    assert cloud.cell.open_migration(cloud.uuid) is None


@pytest.mark.parametrize("away", ["node1", "node2"])
def test_a_server_whose_workflow_cannot_be_completed_is_deleted(cloud_of: NewCloud, away: str) -> None:
    """The absent host returns after the workflow has ended without it, and before the soft delete begins."""
    cloud = cloud_of()
    cloud.begin(Cell.revert, Cell.resize)
    cloud.cell.bus.cut_off.add(away)
    cloud.cell.work_off()
    assert kinds(cloud) == ["revert-resize"]
    cloud.cell.delete(cloud.uuid, soft=True)
    while "revert-resize" in kinds(cloud):
        assert cloud.cell.bus.step()
    cloud.cell.reconnect()
    assert cloud.check() == {}


def kinds(cloud: Cloud) -> list[str]:
    with cloud.cell.database.read() as connection:
        return [row.kind for row in workflows.list_page(connection)]
