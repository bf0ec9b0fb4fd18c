# SPDX-License-Identifier: Apache-2.0
"""Names and addresses of the network namespace of a cloud; tests/guests/test_ovn.py creates one."""

from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest

from kilonova.bundled_services.host_network import HostNetwork, run, try_run
from kilonova.errors import Unavailable


def test_each_data_folder_has_names_of_its_own() -> None:
    first, again, other = (HostNetwork(Path(folder), "metal") for folder in ("/data/a", "/data/a", "/data/b"))
    assert first.name == again.name
    assert first.name.startswith("kn-metal-")
    assert {first.name, first.external, first.consoles}.isdisjoint({other.name, other.external, other.consoles})
    assert all(len(name) <= 15 for name in (first.external, first.consoles))


def test_the_hosts_of_a_cloud_differ_in_all_names_and_addresses() -> None:
    networks = [HostNetwork(Path("/data"), f"{'y' * 50}-{number}", number) for number in range(64)]
    assert [network.is_gateway for network in networks] == [True, *([False] * 63)]
    for names in ([n.name for n in networks], [n.consoles for n in networks], [n.console_address for n in networks]):
        assert len({*names}) == 64
    assert all(len(network.consoles) <= 15 for network in networks)


def test_the_name_of_a_host_stays_a_name() -> None:
    name = HostNetwork(Path("/data"), "../x; rm -rf/" + "y" * 100).name
    assert "/" not in name
    assert ";" not in name
    assert len(name) < 60


def test_console_addresses_are_link_local_but_not_that_of_the_metadata_service() -> None:
    for number in range(300):
        address = IPv4Address(HostNetwork(Path(f"/data/{number}"), "metal").console_address)
        assert address in IPv4Network("169.254.0.0/16")
        assert address not in IPv4Network("169.254.169.0/24")
        assert int(address) % 4 == 2


def test_a_program_that_fails_is_named() -> None:
    with pytest.raises(Unavailable, match=r"^sh -c echo no >&2; exit 3 failed: no$"):
        run("sh", "-c", "echo no >&2; exit 3")
    try_run("sh", "-c", "exit 3")
    assert run("sh", "-c", "echo $GREETING", environment={"GREETING": "hello"}) == "hello\n"
