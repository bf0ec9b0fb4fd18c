# SPDX-License-Identifier: Apache-2.0
from itertools import islice

import pytest

from kilonova.messaging.rabbit.transport_url import Tls, Transport, TransportUrl, parse_transport_url


def places(url: TransportUrl) -> list[tuple[str, int | None]]:
    return [(broker.host, broker.port) for broker in url.brokers]


@pytest.mark.parametrize(
    ("text", "expected", "virtual_host"),
    [
        ("rabbit://u:p@h", [("h", None)], "/"),
        ("rabbit://u:p@h:5673/", [("h", 5673)], "/"),
        ("rabbit://u:p@h1:1,u:p@h2:2/cloud", [("h1", 1), ("h2", 2)], "cloud"),
        ("rabbit://u:p@[::1]:5673,u:p@[fe80::2]/%2F", [("::1", 5673), ("fe80::2", None)], "/"),
        ("rabbit://u:p@h//nova", [("h", None)], "/nova"),
    ],
)
def test_hosts_and_virtual_host(text: str, expected: list[tuple[str, int | None]], virtual_host: str) -> None:
    url = parse_transport_url(text)
    assert places(url) == expected
    assert url.virtual_host == virtual_host


def test_accounts_may_have_any_character() -> None:
    (broker,) = parse_transport_url("rabbit://%C3%BC%40x:p%3A%2F%2C%40@h").brokers
    assert (broker.user, broker.password) == ("\u00fc@x", "p:/,@")
    assert parse_transport_url("rabbit://u:a:b@h").brokers[0].password == "a:b"
    assert parse_transport_url("rabbit://u@h").brokers[0].password is None
    assert parse_transport_url("rabbit://u:@h").brokers[0].password == ""


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "must begin with rabbit://"),
        ("amqp://u:secret@h", "must begin with rabbit://"),
        ("rabbit:///v", "names no host"),
        ("rabbit://h", "has no user for h"),
        ("rabbit://u:secret@h1,h2", "has no user for h2"),
        ("rabbit://u:secret@:5672", "names no host"),
        ("rabbit://u:secret@h:0", "which has an invalid port"),
        ("rabbit://u:secret@h:70000", "which has an invalid port"),
        ("rabbit://u:secret@[::1", "not an address"),
        ("rabbit://u:secret@[::1]x", "not an address"),
        ("rabbit://u:secret@h/v?heartbeat=1", "set options in"),
    ],
)
def test_what_is_no_url_is_refused_without_its_password(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong) as raised:
        parse_transport_url(text)
    assert "secret" not in str(raised.value)


def test_servers_are_tried_round_and_round() -> None:
    transport = Transport(parse_transport_url("rabbit://u:p@a,u:p@b"))
    assert [each.host for each in islice(transport.servers(), 5)] == ["a", "b", "a", "b", "a"]
    assert [transport.pause_s(rounds) for rounds in (1, 2, 3, 99)] == [1.0, 3.0, 5.0, 30.0]
    assert transport.port_of(transport.url.brokers[0]) == 5672
    assert Transport(transport.url, Tls()).port_of(transport.url.brokers[0]) == 5671
