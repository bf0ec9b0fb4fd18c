# SPDX-License-Identifier: Apache-2.0
"""Neighbours as the kernel has them; messages of the kernel as bytes."""

import socket
import struct

from kilonova.bundled_services.neighbours import Neighbours, _mac_in


def test_addresses_without_a_neighbour() -> None:
    neighbours = Neighbours(socket.if_nametoindex("lo"))
    try:
        for address in ("10.255.1.2", "fe80::1", "x", "", "127.0.0.1"):
            assert neighbours.mac_of(address) == ""
    finally:
        neighbours.close()


def message(*attributes: tuple[int, bytes], kind: int = 28) -> bytes:
    body = struct.pack("=BxxxiHBB", socket.AF_INET, 2, 2, 0, 1)
    for name, value in attributes:
        body += struct.pack("=HH", 4 + len(value), name) + value + b"\0" * (-len(value) % 4)
    return struct.pack("=IHHII", 16 + len(body), kind, 0, 1, 0) + body


def test_the_mac_in_a_message() -> None:
    mac = bytes.fromhex("fa163e000001")
    assert _mac_in(message((1, b"\x0a\x01\x00\x09"), (2, mac), (3, b"x" * 16))) == "fa:16:3e:00:00:01"
    assert _mac_in(message((1, b"\x0a\x01\x00\x09"))) == ""
    assert _mac_in(message((2, b"\x01\x02\x03\x04"))) == ""
    assert _mac_in(message((2, mac), kind=2)) == ""
    assert _mac_in(message()) == ""
