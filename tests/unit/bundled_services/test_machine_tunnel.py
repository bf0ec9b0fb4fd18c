# SPDX-License-Identifier: Apache-2.0
"""Rules for tunnels to other machines. Packets are sent in tests/guests/test_ovn_machines.py."""

import json
from pathlib import Path

import pytest

from kilonova.bundled_services.host_network import HostNetwork
from kilonova.bundled_services.machine_tunnel import MachineTunnel
from kilonova.errors import ConfigurationError, Unavailable

ADDRESS = "192.0.2.7"


class Network(HostNetwork):
    """A namespace that exists already."""

    def connect_tunnels(self) -> None:
        """Do nothing: the veth pair is there."""


class Machine:
    """A machine whose device ``eth0`` has the address 192.0.2.7. ``rules``: the nft commands that were run."""

    def __init__(self, folder: Path) -> None:
        self.network = Network(Path("/data"), "metal")
        self.devices, self.note = folder / "conf", folder / "note"
        self.rules: list[str] = []
        self.listeners = ""
        self.has_nft = True
        for name in ("eth0", self.network.tunnels):
            (self.devices / name).mkdir(parents=True)
            (self.devices / name / "forwarding").write_text("0\n")

    def tunnel(self, address: str = ADDRESS) -> MachineTunnel:
        return MachineTunnel(self.network, address, self.note, devices=self.devices, execute=self.execute)

    def execute(self, *command: str) -> str:
        match command[0]:
            case "ip":
                return json.dumps([{"ifname": "eth0"}] if command[-1] == f"{ADDRESS}/32" else [{}])
            case "ss":
                return self.listeners
        if not self.has_nft:
            raise FileNotFoundError("nft")
        if not self.rules and "delete" in command[1]:
            raise Unavailable("no such table")
        self.rules.append(command[1])
        return ""

    def forwards(self, device: str) -> bool:
        return (self.devices / device / "forwarding").read_text() == "1\n"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_only_tunnels_are_forwarded(machine: Machine) -> None:
    machine.tunnel().start()
    (rules,) = machine.rules
    veth, inside = machine.network.tunnels, machine.network.tunnel_addresses.inside
    assert f"ip daddr {ADDRESS} udp dport 6081 dnat to {inside}" in rules
    assert f"ip saddr {inside} udp dport 6081 snat to {ADDRESS}" in rules
    for direction in ("iifname", "oifname"):
        assert f'{direction} "{veth}" meta l4proto != udp drop; {direction} "{veth}" udp dport != 6081 drop' in rules
    assert f'iifname "eth0" oifname != {{ "{veth}" }} ct state != {{ established, related }} drop' in rules
    assert machine.forwards("eth0")
    assert machine.forwards(veth)


def test_packets_to_other_devices_may_pass(machine: Machine) -> None:
    devices, note = machine.devices, machine.note
    MachineTunnel(machine.network, ADDRESS, note, besides=["kn2c"], devices=devices, execute=machine.execute).start()
    assert f'oifname != {{ "{machine.network.tunnels}", "kn2c" }} ct state' in machine.rules[-1]


def test_a_router_stays_a_router(machine: Machine) -> None:
    (machine.devices / "eth0" / "forwarding").write_text("1\n")
    machine.tunnel().start()
    assert 'iifname "eth0"' not in machine.rules[-1]
    machine.tunnel().stop()
    assert machine.forwards("eth0")


def test_a_stop_undoes_the_start_of_a_killed_process(machine: Machine) -> None:
    machine.tunnel().start()
    machine.tunnel().stop()
    assert machine.rules[-1].endswith(f"delete table ip kilonova-{machine.network.tunnels}")
    assert not machine.forwards("eth0")


def test_why_tunnels_are_impossible(machine: Machine) -> None:
    with pytest.raises(ConfigurationError, match=r"no device of this machine has the address 192\.0\.2\.8"):
        machine.tunnel("192.0.2.8").start()
    machine.listeners = "UNCONN 0 0 0.0.0.0:6081 0.0.0.0:*"
    with pytest.raises(ConfigurationError, match="another program of this machine uses UDP port 6081"):
        machine.tunnel().start()
    machine.listeners, machine.has_nft = "", False
    with pytest.raises(ConfigurationError, match="need nft"):
        machine.tunnel().start()
    assert not machine.forwards("eth0")


def test_without_its_bridge_a_host_has_no_address(machine: Machine) -> None:
    assert not machine.tunnel().take_address()
