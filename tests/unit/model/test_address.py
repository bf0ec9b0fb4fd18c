# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.model.address import canonical_address, network_of


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("2001:db8::0:91", "2001:db8::91"),
        ("2001:0DB8:0:0:0:0:0:91", "2001:db8::91"),
        ("::ffff:a00:1", "::ffff:10.0.0.1"),
        ("fd00::1", "fd00::1"),
        ("fd00::1%eth0", "fd00::1%eth0"),
        ("no:address", "no:address"),
        ("nul:\0", "nul:\0"),
        ("", ""),
    ],
)
def test_an_ipv6_address_has_one_spelling(text: str, canonical: str) -> None:
    assert canonical_address(text) == canonical


@pytest.mark.parametrize(
    ("text", "network"),
    [
        ("10.0.0.9/24", "10.0.0.0/24"),
        ("10.0.0.9", "10.0.0.9/32"),
        ("10.0.0.9/255.255.0.0", "10.0.0.0/16"),
        ("10.0.0.9/0.0.0.255", "10.0.0.0/24"),
        ("10.0.0.9/0.0.0.0", "0.0.0.0/0"),
        ("10.0.0.9/+8", "10.0.0.0/8"),
        ("10.0.0.9/ 8", "10.0.0.0/8"),
        ("10.0.0.9/1_6", "10.0.0.0/16"),
        ("FD00::9/ffff::", "fd00::/16"),
        ("fd00::9/::ffff", "fd00::/112"),
        ("fd00::9/::", "::/0"),
        ("::ffff:10.0.0.9/128", "::ffff:a00:9/128"),
    ],
)
def test_a_network_has_a_prefix_length_or_a_mask(text: str, network: str) -> None:
    assert str(network_of(text)) == network


@pytest.mark.parametrize(
    "text",
    [
        *("192.168.0.95/ffff::", "192.168.0.95/::", "192.168.0.95/abc", "192.168.0.95/", "10.0.0.9/33", "10.0.0.9/-1"),
        *("10.0.0.9/255.0.255.0", "10.0.0.9/24/24", "fd00::9/0.0.0.255", "fd00::9/129", "fd00::9/ffff::ff"),
        *("fd00::9%eth0/64", "10.0.0/8", "010.0.0.9/8", " 10.0.0.9/8", "node1/8", "", "/24"),
    ],
)
def test_other_texts_are_no_network(text: str) -> None:
    assert network_of(text) is None
