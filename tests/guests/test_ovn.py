# SPDX-License-Identifier: Apache-2.0
"""A private Open vSwitch with OVN: stations and real guests on it, crashes of its processes, and what it leaves."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kilonova.bundled_services.host_network import run
from kilonova.bundled_services.ovn import Ovn
from kilonova.errors import ConfigurationError
from kilonova.identifiers import new_uuid
from kilonova.model.network_info import Vif, VifNetwork
from support.external_network import external_network
from support.libvirt_node import LibvirtNode
from support.libvirt_place import LibvirtPlace
from support.ovn_cloud import OvnCloud, Station, listen_in, reaches, run_pid
from support.waiting import wait_until

MACS = ("fa:16:3e:00:00:01", "fa:16:3e:00:00:02")
ADDRESSES = ("10.1.0.11", "10.1.0.12")
_START = """
import os, sys, time
from pathlib import Path
from kilonova.bundled_services.ovn import Ovn
os.umask(0o077)
ovn = Ovn(Path(sys.argv[1]), "metal")
ovn.start()
print(ovn.hosts[0].network.name, flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OvnCloud]:
    with external_network():
        made = OvnCloud(tmp_path_factory.mktemp("ovn"))
        made.ovn.start()
        made.switch("net", **{name: f"{mac} {ip}" for name, mac, ip in zip("ab", MACS, ADDRESSES, strict=True)})
        yield made
        made.ovn.stop()


@pytest.fixture(scope="module")
def stations(cloud: OvnCloud) -> Iterator[tuple[Station, Station]]:
    made = [
        cloud.station(f"st{name}", name, mac, f"{ip}/24") for name, mac, ip in zip("ab", MACS, ADDRESSES, strict=True)
    ]
    yield made[0], made[1]
    for each in made:
        each.remove()


def connected(stations: tuple[Station, Station]) -> None:
    for station, address in zip(stations, reversed(ADDRESSES), strict=True):
        wait_until(lambda station=station, address=address: station.reaches(address), "the stations to be connected")


def test_stations_reach_each_other_also_after_a_crash(cloud: OvnCloud, stations: tuple[Station, Station]) -> None:
    connected(stations)
    for process in cloud.ovn.processes:
        if process.name != "ovn-vswitchd":  # its devices, which the stations have, end with it
            os.kill(run_pid(process), signal.SIGKILL)
            wait_until(process.ended, "the process to end")
            assert process.ending() == "was killed by SIGKILL"
            process.restart()
            process.wait()
            connected(stations)


def test_the_machine_reaches_consoles_and_stations_do_not(cloud: OvnCloud, stations: tuple[Station, Station]) -> None:
    address = cloud.ovn.hosts[0].network.console_address
    server = listen_in(cloud.ovn.hosts[0].network.name, address)
    try:
        assert reaches(address)
        run("ip", "-n", stations[0].name, "route", "add", "default", "via", ADDRESSES[1])
        assert not stations[0].reaches(address)
    finally:
        server.kill()
        server.communicate()


def test_another_cloud_cannot_use_the_same_addresses(cloud: OvnCloud, tmp_path: Path) -> None:
    other = Ovn(tmp_path, "metal")
    assert other.hosts[0].network.name != cloud.ovn.hosts[0].network.name
    with pytest.raises(ConfigurationError, match=cloud.ovn.hosts[0].network.external):
        other.start()
    other.stop()
    assert reaches("172.24.4.1") is False
    assert cloud.ovn.hosts[0].network.file.exists()


def test_no_socket_of_the_system_is_used(cloud: OvnCloud) -> None:
    assert not list(Path("/run/openvswitch").glob("*.sock"))
    assert not list(Path("/run/ovn").glob("*.sock"))
    assert {path.name for path in Path(cloud.ovn.hosts[0].guests.ovs_run or "").glob("*.sock")} >= {"db.sock"}


def vif(number: int) -> Vif:
    network = VifNetwork(id=new_uuid(), label="net", mtu=1442)
    return Vif(
        port_id=f"{number:08x}-1111-4222-8333-444455556666",
        mac=f"fa:16:3e:00:01:{number:02x}",
        network=network,
        vif_type="ovs",
        details={"datapath_type": "netdev", "bridge_name": "br-int"},
    )


@pytest.fixture
def place(cloud: OvnCloud, tmp_path: Path) -> Iterator[LibvirtPlace]:
    node = LibvirtNode("metal", cloud.ovn.hosts[0].guests)
    try:
        node.start()
        made = LibvirtPlace(node, tmp_path, device_detach_timeout_s=5)
        yield made
        made.clear()
    finally:
        node.remove()


def is_up(cloud: OvnCloud, port: Vif) -> bool:
    return run("ovn-nbctl", f"--db={cloud.ovn.databases.northbound}", "lsp-get-up", port.port_id).strip() == "up"


def test_ports_of_guests_are_up_while_the_guests_run(cloud: OvnCloud, place: LibvirtPlace) -> None:
    first, second = vif(1), vif(2)
    cloud.switch("net", **{each.port_id: f"{each.mac} dynamic" for each in (first, second)})
    guest = place.made(vifs=(first,))
    wait_until(lambda: is_up(cloud, first), "the port to be up")
    wait_until(lambda: ": boot " in place.driver.console_output(guest.uuid, None), "the guest to boot")
    place.driver.attach_interface(guest.uuid, second)
    wait_until(lambda: is_up(cloud, second), "the attached port to be up")
    place.driver.detach_interface(guest.uuid, second)
    wait_until(lambda: not is_up(cloud, second), "the detached port to be down")
    vswitchd = next(process for process in cloud.ovn.processes if process.name == "ovn-vswitchd")
    vswitchd.kill()
    cloud.vsctl("--no-wait", "clear", "Interface", first.device_name, "ofport")
    vswitchd.restart()
    wait_until(lambda: cloud.vsctl("get", "Interface", first.device_name, "ofport").strip() > "0", "the guest's port")
    # Open vSwitch forgets a port whose guest ends while its database does not answer, at its next start
    cloud.vsctl("--no-wait", "add-port", "br-int", "tapgone")
    cloud.ovn.hosts[0].configure()
    assert cloud.ovn.hosts[0].ports() & {"tapgone", first.device_name} == {first.device_name}
    place.driver.destroy(guest.uuid)
    wait_until(lambda: not is_up(cloud, first), "the port to be down")


def test_a_cloud_that_was_killed_leaves_nothing_after_the_next_start(cloud: OvnCloud, tmp_path: Path) -> None:
    cloud.ovn.stop()
    try:
        first = subprocess.Popen([sys.executable, "-c", _START, tmp_path], stdout=subprocess.PIPE, text=True)
        assert first.stdout is not None
        name = first.stdout.readline().strip()
        guest = subprocess.Popen(["ip", "netns", "exec", name, "sleep", "600"])
        first.kill()
        first.communicate()
        again = Ovn(tmp_path, "metal")
        again.start()
        assert again.hosts[0].network.name == name
        assert guest.poll() is None
        again.stop()
        assert again.hosts[0].network.file.exists()  # a guest still runs in it
        guest.kill()
        guest.wait()
        last = Ovn(tmp_path, "metal")
        last.start()
        last.stop()
        wait_until(lambda: _devices_of(last) == set(), "the veth pairs to be removed")
        assert not last.hosts[0].network.file.exists()
    finally:
        cloud.ovn.start()


def _devices_of(ovn: Ovn) -> set[str]:
    return {each.name for each in Path("/sys/class/net").iterdir()} & {
        ovn.hosts[0].network.external,
        ovn.hosts[0].network.consoles,
    }
