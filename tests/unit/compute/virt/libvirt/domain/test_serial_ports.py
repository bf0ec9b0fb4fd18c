# SPDX-License-Identifier: Apache-2.0
"""Ports for the serial consoles of guests are free, and nobody else's."""

import socket

import pytest

from kilonova.compute.virt.libvirt.domain.domain_xml import domain_xml
from kilonova.compute.virt.libvirt.domain.serial_ports import SerialPorts, serial_ports_in
from kilonova.config.consoles import ConsoleSettings, PortRange
from kilonova.errors import DriverError
from support.guest_descriptions import described, guest_of

_HOME = "127.0.0.1"


@pytest.fixture
def ports() -> PortRange:
    """Four neighbours that are free now."""
    for first in range(20000, 30000, 7):
        try:
            for port in range(first, first + 4):
                with socket.socket() as trial:
                    trial.bind((_HOME, port))
        except OSError:
            continue
        return PortRange(first, first + 3)
    pytest.fail("no free ports")


def test_ports_are_free_and_not_those_of_other_guests(ports: PortRange) -> None:
    with socket.socket() as somebody:
        somebody.bind((_HOME, ports.first))
        somebody.listen()
        assert SerialPorts(_HOME, ports).find(2, {ports.first + 2}) == (ports.first + 1, ports.last)


def test_ports_of_another_network_namespace_are_free_unless_guests_have_them(ports: PortRange) -> None:
    elsewhere = SerialPorts("192.0.2.1", ports)  # RFC 5737: no machine has this address
    assert elsewhere.find(2, {ports.first}) == (ports.first + 1, ports.first + 2)


def test_two_guests_that_are_made_at_a_time_get_different_ports(ports: PortRange) -> None:
    serial = SerialPorts(_HOME, ports)
    found = [serial.find(1, ()) for _ in range(5)]
    assert len(set(found[:4])) == 4
    assert found[4] == found[0]


def test_a_range_that_is_used_up_is_named(ports: PortRange) -> None:
    with pytest.raises(DriverError, match=r"\[serial_console\] port_range"):
        SerialPorts(_HOME, ports).find(2, range(ports.first, ports.last))


def test_ports_are_read_back_from_a_domain() -> None:
    guest = guest_of({"hw:serial_port_count": "2"})
    consoles = ConsoleSettings(serial_enabled=True)
    domain = described(guest, consoles=consoles, serial_tcp_ports=(10007, 10009))
    assert serial_ports_in(domain_xml(domain)) == (10007, 10009)
    assert serial_ports_in(domain_xml(described(guest))) == ()


def test_ranges_are_read_as_they_are_written() -> None:
    assert str(PortRange.of(" 10000: 20000")) == "10000:20000"


@pytest.mark.parametrize("text", ["", "10000", "10000-20000", "1:2", "20000:10000", "10000:70000", "a:b"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="10000:20000"):
        PortRange.of(text)
