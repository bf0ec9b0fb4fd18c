# SPDX-License-Identifier: Apache-2.0
"""Clients of OVN's databases over TCP, with and without a certificate."""

import json
import socket
import ssl
from typing import Any

from kilonova.bundled_services.certificate_files import Certificate

_ANSWERS_S = 3.0


def ask(address: str, port: int, method: str, *params: Any, certificate: Certificate | None, tls: bool = True) -> Any:
    """Send a request to a database; return the answer, or None if the database refuses the client.

    ``certificate``: of the client; None for a client that has none. ``tls``: False: the client uses no TLS.
    """
    request = json.dumps({"method": method, "params": params, "id": 0}).encode()
    try:
        with socket.create_connection((address, port), timeout=_ANSWERS_S) as plain:
            if not tls:
                return _answer(plain, request)
            with _context(certificate).wrap_socket(plain) as secured:
                return _answer(secured, request)
    except (ssl.SSLError, ConnectionError, TimeoutError):
        return None


def _context(certificate: Certificate | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        context.load_cert_chain(certificate.certificate, certificate.key)
    return context


def _answer(connection: socket.socket, request: bytes) -> Any:
    connection.sendall(request)
    text = b""
    while data := connection.recv(65_536):
        text += data
        try:
            return json.loads(text)
        except ValueError:
            continue
    return None
