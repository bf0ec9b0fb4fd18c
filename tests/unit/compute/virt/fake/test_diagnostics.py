# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace
from pathlib import Path

import pytest

from kilonova.errors import GuestMissing, GuestNotRunning
from kilonova.messaging.messages import PauseGuest, SpawnGuest, StopGuest
from support.one_host import OneHost, guest, new_step


def test_the_uptime_counts_from_the_last_boot_and_is_unknown_without_one(tmp_path: Path) -> None:
    host = OneHost(tmp_path)
    host.do(SpawnGuest(new_step(), guest(memory_mib=256)))
    found = host.driver.diagnostics("a")
    assert (found.memory_maximum_mib, len(found.cpus), len(found.disks)) == (256, 1, 1)
    assert found.uptime_s is not None
    assert 0 <= found.uptime_s < 60
    hypervisor = host.driver.hypervisor
    present = hypervisor.guests.guest("a")
    assert present is not None
    hypervisor.guests.put("a", guest=replace(present, console=()))
    assert host.driver.diagnostics("a").uptime_s is None


@pytest.mark.parametrize("order", [StopGuest, PauseGuest])
def test_only_a_running_guest_has_any(tmp_path: Path, order: type[StopGuest] | type[PauseGuest]) -> None:
    host = OneHost(tmp_path)
    host.do(SpawnGuest(new_step(), guest()))
    host.do(order(new_step(), "a"))
    with pytest.raises(GuestNotRunning):
        host.driver.diagnostics("a")
    with pytest.raises(GuestMissing):
        host.driver.diagnostics("b")
