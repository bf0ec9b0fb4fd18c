# SPDX-License-Identifier: Apache-2.0
"""Clients of a console proxy: WebSockets of another library than the proxy's, and a VNC viewer on top of one."""

import socket
import ssl
import struct
from collections.abc import Mapping
from http.client import HTTPConnection
from typing import Any

import websocket

TIMEOUT_S = 30.0


class Viewer:
    """Byte stream over a WebSocket, independent of frame boundaries."""

    def __init__(self, opened: Any) -> None:
        self.websocket = opened
        self._left = b""

    def send(self, data: bytes) -> None:
        self.websocket.send_binary(data)

    def read(self, count: int) -> bytes:
        """Return ``count`` bytes, or fewer if the proxy closes."""
        while len(self._left) < count:
            code, data = self.websocket.recv_data()
            if code == websocket.ABNF.OPCODE_CLOSE:
                break
            self._left += data
        data, self._left = self._left[:count], self._left[count:]
        return data

    def read_until(self, wanted: bytes) -> None:
        """Read until the data contains a text."""
        said = b""
        while wanted not in said:
            one = self.read(1)
            assert one, said
            said += one

    def end(self) -> tuple[int, str]:
        """Wait until the proxy closes; return the close code and its reason."""
        while True:
            code, data = self.websocket.recv_data()
            if code == websocket.ABNF.OPCODE_CLOSE:
                return struct.unpack(">H", data[:2])[0], data[2:].decode()

    def close(self) -> None:
        self.websocket.close(timeout=1)
        self.websocket.shutdown()


def connect(port: int, target: str, *, tls_ca: str | None = None, at: str = "127.0.0.1", **options: Any) -> Viewer:
    """Open a WebSocket. ``at``: address of a proxy without TLS.

    Raises: WebSocketBadStatusException with the proxy's HTTP status.
    """
    scheme, sslopt = ("wss", {"ca_certs": tls_ca, "cert_reqs": ssl.CERT_REQUIRED}) if tls_ca else ("ws", None)
    host = "localhost" if tls_ca else at
    options.setdefault("suppress_origin", "origin" not in options)
    options.setdefault("subprotocols", ["binary"])
    opened = websocket.create_connection(
        f"{scheme}://{host}:{port}{target}", timeout=TIMEOUT_S, sslopt=sslopt, **options
    )
    return Viewer(opened)


def refused(port: int, target: str, **options: Any) -> int:
    """Return the HTTP status with which the proxy refuses a WebSocket; 101 if it accepts."""
    try:
        connect(port, target, **options).close()
    except websocket.WebSocketBadStatusException as error:
        return int(error.status_code)
    return 101


def see_screen(viewer: Viewer, version: int = 8) -> str:
    """Do a VNC handshake, request the screen, and return the name of the desktop."""
    assert viewer.read(12) == b"RFB 003.008\n"
    viewer.send(b"RFB 003.00%d\n" % version)
    if version == 3:
        assert viewer.read(4) == struct.pack(">I", 1)
    else:
        assert viewer.read(2) == bytes([1, 1])
        viewer.send(bytes([1]))
        assert version == 7 or viewer.read(4) == bytes(4)
    viewer.send(bytes([1]))
    width, height = struct.unpack(">HH", viewer.read(4))
    viewer.read(16)
    (length,) = struct.unpack(">I", viewer.read(4))
    name = viewer.read(length).decode()
    viewer.send(struct.pack(">BBHHHH", 3, 0, 0, 0, width, height))
    assert viewer.read(16) == struct.pack(">BxHHHHHi", 0, 1, 0, 0, width, height, 0)
    assert len(viewer.read(width * height * 4)) == width * height * 4
    return name


def get(port: int, path: str, method: str = "GET") -> tuple[int, Mapping[str, str], bytes]:
    """Send an HTTP GET to the proxy."""
    connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def listening() -> socket.socket:
    """Return a socket that listens on a free port."""
    found = socket.create_server(("127.0.0.1", 0))
    found.setblocking(False)
    return found
