# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch and OVN are not started here; tests/guests/test_ovn.py does."""

from pathlib import Path

import pytest

from kilonova.bundled_services.ovn import Ovn, why_impossible
from kilonova.bundled_services.settings import OvnDatabases

PROGRAMS = ("ip", "ethtool", "ovsdb-server", "ovs-vswitchd", "ovn-northd", "ovn-controller")


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    for name in PROGRAMS:
        (tmp_path / name).touch(mode=0o755)
    return tmp_path


def test_a_machine_that_has_all(programs: Path) -> None:
    assert why_impossible(is_root=True, path=str(programs), tun=programs / "ip") is None


def test_what_is_missing_is_said_in_a_sentence(programs: Path) -> None:
    assert "needs root" in str(why_impossible(is_root=False, path=str(programs), tun=programs / "ip"))
    no_tun = why_impossible(is_root=True, path=str(programs), tun=programs / "none")
    assert f"needs {programs}/none, which cannot be opened: No such file or directory" in str(no_tun)
    (programs / "ovn-northd").unlink()
    (programs / "ethtool").unlink()
    lacking = why_impossible(is_root=True, path=str(programs), tun=programs / "ip")
    assert "needs ethtool, ovn-northd; type: tools/ovn.sh" in str(lacking)


def test_all_processes_use_sockets_in_one_folder(tmp_path: Path) -> None:
    folder = tmp_path / "a-path-too-long-for-sockets" / ("x" * 100)
    ovn = Ovn(folder, "metal")
    run = str(ovn.hosts[0].guests.ovs_run)
    assert len(run) < 60
    assert ovn.databases == OvnDatabases(f"unix:{run}/northbound.sock", f"unix:{run}/southbound.sock")
    assert {process.name for process in ovn.processes} >= {"ovn-northbound", "ovn-southbound", "ovn-switch"}
    assert all(process.ended() for process in ovn.processes)
