# SPDX-License-Identifier: Apache-2.0
"""A server accepts connections from the listeners of other servers, too, for as long as these do not serve."""

import socket

from kilonova.server.listening import listen
from support.http_clients import Client, get, serving


def connected(listener: socket.socket) -> Client:
    return Client(socket.create_connection(listener.getsockname(), 10))


def test_another_listener_is_served_until_its_owner_serves() -> None:
    with serving() as served, listen("127.0.0.1", 0, "other") as other:
        waiting = connected(other).send(get("/1"))
        served.server.accept_also_from([other])
        assert waiting.answer().json["PATH_INFO"] == "/1"
        assert connected(other).ask(get("/2")).json["PATH_INFO"] == "/2"
        assert served.client().ask(get("/3")).status == 200
        served.server.accept_also_from([other])
        assert connected(other).ask(get("/4")).status == 200
        served.server.accept_also_from([])
        left = connected(other).send(get("/5"))
        assert not left.is_closed(0.2)
        assert waiting.ask(get("/6")).status == 200  # accepted connections stay
        served.server.accept_also_from([other])
        left.sock.settimeout(10)
        assert left.answer().json["PATH_INFO"] == "/5"


def test_a_stopped_server_accepts_from_no_listener() -> None:
    with listen("127.0.0.1", 0, "other") as other:
        with serving() as served:
            served.server.accept_also_from([other])
            assert connected(other).ask(get()).status == 200
        served.server.accept_also_from([other])
        assert not connected(other).send(get()).is_closed(0.2)
