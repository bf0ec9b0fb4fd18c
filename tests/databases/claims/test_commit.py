# SPDX-License-Identifier: Apache-2.0
"""Commits of claims that come too late take nothing."""

from collections.abc import Callable

import pytest
import sqlalchemy as sa

from kilonova.claims.commit import Bundle, InstancesGone, commit_bundles
from kilonova.db import host_devices
from kilonova.db.change_log import device_json
from kilonova.db.core import tables as t
from kilonova.db.host_devices import Taking
from kilonova.errors import ClaimLost
from kilonova.identifiers import new_uuid
from kilonova.model.host_devices import HostDevices
from support.cell import Cell
from support.device_cells import PINNED, devices_of, machine
from support.orders import order


def as_mirrored(devices: HostDevices) -> HostDevices:
    """Return the devices as mirrors count them: without addresses."""
    return device_json.devices_from_logged(device_json.as_logged(devices))


def test_a_claim_of_a_process_without_its_fence_takes_nothing(start_machines: Callable[..., Cell]) -> None:
    cell = start_machines(machine("a"))
    idle = devices_of(cell)
    wanted = order(cell, flavor=PINNED)
    plan = cell.claimer._plan(wanted)
    outcome = cell.database.submit_batched(commit_bundles, Bundle(tuple(plan.claims), "another process")).result()
    assert isinstance(outcome, InstancesGone)
    assert devices_of(cell) == idle
    cell.claimer._forget(plan.claims)
    assert cell.mirror.snapshot().devices_of(0) == as_mirrored(idle[0])


def test_a_claim_that_comes_too_late_is_lost_and_decided_again(start_machines: Callable[..., Cell]) -> None:
    """The mirror does not know the rival claim yet; the guard row does."""
    cell = start_machines(machine("a"))
    plan = cell.claimer._plan(order(cell, flavor=PINNED))
    (claim,) = plan.claims
    assert claim.devices is not None
    rival = Taking(new_uuid(), claim.node_uuid, claim.devices)
    assert cell.database.write(lambda tx: host_devices.take(tx, [rival]))
    with pytest.raises(ClaimLost, match="taken"):
        cell.database.submit_batched(commit_bundles, Bundle(tuple(plan.claims), cell.conductor.owner)).result()
    cell.claimer._forget(plan.claims)
    with cell.database.read() as connection:
        assert [taking.instance_uuid for taking in host_devices.shares(connection)] == [rival.instance_uuid]
        assert connection.execute(sa.select(t.allocations)).all() == []
