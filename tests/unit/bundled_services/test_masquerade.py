# SPDX-License-Identifier: Apache-2.0
"""Forwarding for guests: which devices of the machine forward packets, and what is left after a stop."""

import json
from pathlib import Path

import pytest

from kilonova.bundled_services.masquerade import Masquerade
from kilonova.errors import Unavailable


class Machine:
    """A machine with the uplink ``eth0`` and the external device ``kn1``. ``rules``: the nft commands that were run."""

    def __init__(self, folder: Path) -> None:
        self.devices = folder / "conf"
        self.note = folder / "uplinks"
        self.rules: list[str] = []
        self.routes = [{"dst": "default", "dev": "eth0"}]
        self.has_nft = True
        for name in ("eth0", "kn1"):
            (self.devices / name).mkdir(parents=True)
            (self.devices / name / "forwarding").write_text("0\n")

    def masquerade(self) -> Masquerade:
        return Masquerade("kn1", "172.24.4.0/24", self.note, devices=self.devices, execute=self.execute)

    def execute(self, *command: str) -> str:
        if command[0] == "ip":
            return json.dumps(self.routes)
        if not self.has_nft:
            raise Unavailable("no nft")
        self.rules.append(command[1])
        return ""

    def forwards(self, device: str) -> bool:
        return (self.devices / device / "forwarding").read_text() == "1\n"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_machine_that_did_not_forward_forwards_only_replies_to_guests(machine: Machine) -> None:
    assert machine.masquerade().start() is None
    assert machine.forwards("eth0")
    assert machine.forwards("kn1")
    assert 'iifname "eth0" ct state != { established, related } drop' in machine.rules[-1]
    assert "ip saddr 172.24.4.0/24 ip daddr != 172.24.4.0/24 masquerade" in machine.rules[-1]


def test_a_router_stays_a_router(machine: Machine) -> None:
    (machine.devices / "eth0" / "forwarding").write_text("1\n")
    machine.masquerade().start()
    assert "drop" not in machine.rules[-1]
    machine.masquerade().stop()
    assert machine.forwards("eth0")


def test_a_stop_undoes_the_start_of_a_killed_process(machine: Machine) -> None:
    machine.masquerade().start()
    machine.masquerade().start()
    assert "drop" in machine.rules[-1]
    machine.masquerade().stop()
    assert machine.rules[-1].endswith("delete table ip kilonova-kn1")
    assert not machine.forwards("eth0")
    assert not machine.note.exists()


def test_the_reason_is_known_if_guests_are_isolated(machine: Machine) -> None:
    machine.has_nft = False
    assert machine.masquerade().start() == "no nft"
    assert not machine.forwards("eth0")
    machine.routes = []
    assert machine.masquerade().start() == "this machine has no default route"


def test_packets_of_tunnels_pass(machine: Machine) -> None:
    masquerade = Masquerade(
        "kn1", "172.24.4.0/24", machine.note, tunnels="kn1t", devices=machine.devices, execute=machine.execute
    )
    assert masquerade.start() is None
    assert 'iifname "eth0" oifname != "kn1t" ct state' in machine.rules[-1]
