# SPDX-License-Identifier: Apache-2.0
import socket

import pytest

from kilonova.cli.wiring.addresses import Address, hold, parse
from kilonova.errors import ConfigurationError, Unavailable
from kilonova.server.listening import listen
from support.narrow_sockets import ephemeral_port, narrow_sockets


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8774", Address("127.0.0.1", 8774)),
        ("localhost:1", Address("localhost", 1)),
        ("[::1]:65535", Address("::1", 65535)),
    ],
)
def test_an_address_is_read(text: str, address: Address) -> None:
    assert parse(text, "--bind") == address
    assert address.text == text


@pytest.mark.parametrize(
    "text", ["", "8774", ":8774", "host", "host:", "host:0", "host:65536", "host:x", "::1:80", "h:٣"]
)
def test_what_is_no_address_is_refused_naming_the_option(text: str) -> None:
    with pytest.raises(ConfigurationError, match="--bind must be HOST:PORT"):
        parse(text, "--bind")


def test_clients_are_never_told_a_wildcard() -> None:
    everywhere = Address("0.0.0.0", 80)
    assert everywhere.local_url == "http://127.0.0.1:80"
    assert "0.0.0.0" not in everywhere.public_url
    assert Address("::", 80).local_url == "http://[::1]:80"


def _listen(reuse_port: bool) -> socket.socket:
    listener = socket.socket()
    if reuse_port:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    return listener


@pytest.mark.parametrize("reuse_port", [False, True])
def test_a_taken_port_is_named_with_who_needs_it(reuse_port: bool) -> None:
    with _listen(reuse_port) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(Unavailable, match=rf"port {port} on 127.0.0.1 is in use, and Glance needs it"):
            hold({"Glance": Address("127.0.0.1", port)}, timeout_s=0)
    hold({"Glance": Address("127.0.0.1", port)}, timeout_s=0).close()


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::1"])
def test_no_connection_gets_a_held_port_as_its_source_and_the_service_can_listen_there(host: str) -> None:
    port = ephemeral_port()
    address = Address(host, port)
    with hold({"the control process": address}), narrow_sockets(port, port)() as client:
        with pytest.raises(OSError, match="Cannot assign requested address"):
            client.connect(("127.0.0.1", port))
        for _ in range(2):  # the service may be started again
            listen(host, port, "--bind").close()
        with listen(host, port, "--bind"), pytest.raises(Unavailable):
            hold({"another control process": address}, timeout_s=0)


def test_two_services_cannot_have_one_port() -> None:
    with pytest.raises(ConfigurationError, match="port 5000 is assigned to both a and b"):
        hold({"a": Address("127.0.0.1", 5000), "b": Address("127.0.0.1", 5000)})


def test_an_address_that_is_not_this_machines_is_bad_input() -> None:
    with pytest.raises(ConfigurationError, match=r"cannot listen on 192\.0\.2\.7:80 for Glance"):
        hold({"Glance": Address("192.0.2.7", 80)})
