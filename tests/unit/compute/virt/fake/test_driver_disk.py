# SPDX-License-Identifier: Apache-2.0
"""The simulated hypervisor on a disk that takes no more: what it says it has is what its file says."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kilonova.compute.virt.fake import FakeDriver
from kilonova.errors import DriverError
from kilonova.model.allocation_ratios import AllocationRatios
from kilonova.model.instance import GuestSpec, PowerState
from kilonova.scenario.model import SimulatedHost


def driver(folder: Path) -> FakeDriver:
    return FakeDriver(SimulatedHost("node1"), folder / "node1.json", AllocationRatios())


def guest(uuid: str) -> GuestSpec:
    return GuestSpec(uuid=uuid, name="vm", hostname="vm", vcpus=1, memory_mib=1, root_gib=1)


@pytest.mark.parametrize(
    "act",
    [
        lambda host: host.spawn(guest("b")),
        lambda host: host.destroy("a"),
        lambda host: host.stop("a"),
    ],
)
def test_what_cannot_be_stored_did_not_happen(tmp_path: Path, act: Callable[[FakeDriver], None]) -> None:
    folder = tmp_path / "hypervisors"
    folder.mkdir()
    host = driver(folder)
    host.spawn(guest("a"))
    shutil.move(folder, tmp_path / "elsewhere")
    with pytest.raises(DriverError, match=r"Host node1 cannot store its guests: No such file or directory\."):
        act(host)
    assert host.list_guests() == {"a": PowerState.RUNNING}
    shutil.move(tmp_path / "elsewhere", folder)
    act(host)
    assert driver(folder).list_guests() == host.list_guests() != {"a": PowerState.RUNNING}
