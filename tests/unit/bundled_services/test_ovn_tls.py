# SPDX-License-Identifier: Apache-2.0
"""Addresses on which OVN's databases listen. The TLS connections are tested in tests/guests/test_ovn_hosts.py."""

from pathlib import Path

import pytest

from kilonova.bundled_services.ovn import Ovn
from kilonova.bundled_services.ovn_tls import Listener, read_address
from kilonova.errors import ConfigurationError


def test_addresses_as_the_programs_of_ovn_expect_them() -> None:
    assert (str(Listener("192.0.2.7", 6642)), Listener("192.0.2.7", 6642).target) == (
        "6642:192.0.2.7",
        "ssl:192.0.2.7:6642",
    )
    assert (str(Listener("2001:db8::7", 1)), Listener("2001:db8::7", 1).target) == (
        "1:[2001:db8::7]",
        "ssl:[2001:db8::7]:1",
    )


def test_the_address_of_an_operator_is_an_ip_address() -> None:
    assert [read_address(text) for text in ("192.0.2.7", "2001:DB8::7")] == ["192.0.2.7", "2001:db8::7"]
    for text in ("", "example.org", "192.0.2.7:6642", "[::1]"):
        with pytest.raises(ConfigurationError, match="--ovn-address"):
            read_address(text)


def test_only_further_hosts_reach_the_southbound_database_by_tls(tmp_path: Path) -> None:
    ovn = Ovn(tmp_path, "metal", "metal-2")
    assert [host.southbound.target.partition(":")[0] for host in ovn.hosts] == ["unix", "ssl"]
