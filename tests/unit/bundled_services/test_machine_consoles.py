# SPDX-License-Identifier: Apache-2.0
"""Rules for consoles; tests/guests/test_up_machines.py uses consoles of another machine."""

from pathlib import Path

from kilonova.bundled_services.host_network import HostNetwork
from kilonova.bundled_services.machine_consoles import ConsoleAddresses, MachineConsoles

NETWORK = HostNetwork(Path("/data"), "metal-2", 1)
WHERE = ConsoleAddresses("192.0.2.1", "192.0.2.2", [(10000, 10999), (9900, 10099)])


def consoles(folder: Path, rules: list[str]) -> MachineConsoles:
    (folder / NETWORK.consoles).mkdir(exist_ok=True)

    def execute(*command: str) -> str:
        rules.append(command[1])
        return ""

    return MachineConsoles(NETWORK, WHERE, folder / "note", devices=folder, execute=execute)


def test_only_the_proxy_reaches_consoles(tmp_path: Path) -> None:
    rules: list[str] = []
    consoles(tmp_path, rules).start()
    for ports in ("10000-10999", "9900-10099"):
        assert (
            f"ip saddr 192.0.2.1 ip daddr 192.0.2.2 tcp dport {ports} dnat to {NETWORK.console_address}; " in rules[-1]
        )
    veth = NETWORK.consoles
    assert f'oifname "{veth}" ct status dnat accept; oifname "{veth}" drop' in rules[-1]
    assert f'oifname "{veth}" ip saddr 192.0.2.1 snat to {NETWORK.machine_address}' in rules[-1]
    assert (tmp_path / veth / "forwarding").read_text() == "1\n"


def test_a_stop_removes_the_rules(tmp_path: Path) -> None:
    rules: list[str] = []
    consoles(tmp_path, rules).start()
    consoles(tmp_path, rules).stop()
    assert rules[-1].endswith(f"delete table ip kilonova-{NETWORK.consoles}")
    assert not (tmp_path / "note").exists()
