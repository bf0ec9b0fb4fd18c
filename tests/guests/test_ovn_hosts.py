# SPDX-License-Identifier: Apache-2.0
"""Several hosts of one machine, each with an Open vSwitch of its own: stations on them, and a crash."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.external_network import external_network
from support.ovn_cloud import OvnCloud, run_pid
from support.waiting import wait_until

HOSTS = ("metal", "metal-2", "metal-3")
PORTS = {f"port{number}": (f"fa:16:3e:00:02:0{number}", f"10.2.0.1{number}") for number in range(3)}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OvnCloud]:
    with external_network():
        made = OvnCloud(tmp_path_factory.mktemp("ovn"), *HOSTS)
        made.ovn.start()
        made.switch("net", **{name: f"{mac} {address}" for name, (mac, address) in PORTS.items()})
        yield made
        made.ovn.stop()


def reached(cloud: OvnCloud) -> None:
    """Connect a station to each host, and wait until all reach each other."""
    stations = [
        cloud.station(f"st{number}", name, mac, f"{address}/24", number)
        for number, (name, (mac, address)) in enumerate(PORTS.items())
    ]
    try:
        for number, station in enumerate(stations):
            others = [address for other, (_, address) in enumerate(PORTS.values()) if other != number]
            for address in others:
                wait_until(lambda s=station, a=address: s.reaches(a), "the stations to be connected")
    finally:
        for station in stations:
            station.remove()


def test_stations_of_all_hosts_reach_each_other_also_after_a_crash(cloud: OvnCloud) -> None:
    reached(cloud)
    vswitchd = next(process for process in cloud.ovn.hosts[0].processes if "vswitchd" in process.name)
    os.kill(run_pid(vswitchd), signal.SIGKILL)
    wait_until(vswitchd.ended, "the process to end")
    vswitchd.restart()  # the bridge has its address for tunnels again as soon as the process is ready
    wait_until(vswitchd.answers, "the process to be ready")
    reached(cloud)


def test_only_the_first_host_is_a_gateway(cloud: OvnCloud) -> None:
    assert "ext0" in cloud.ovn.hosts[0].network.devices()
    for host in cloud.ovn.hosts[1:]:
        assert "ext0" not in host.network.devices()


def test_a_stop_leaves_nothing(cloud: OvnCloud) -> None:
    cloud.ovn.stop()
    devices = [Path("/sys/class/net", host.network.consoles) for host in cloud.ovn.hosts]
    wait_until(lambda: not any(device.exists() for device in devices), "the veth pairs to be removed")
    assert not any(host.network.file.exists() for host in cloud.ovn.hosts)
