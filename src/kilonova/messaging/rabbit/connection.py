# SPDX-License-Identifier: Apache-2.0
"""Opening and closing of py-amqp connections. All calls of a connection have short timeouts."""

from typing import Any

import amqp
from amqp import serialization
from amqp.spec import Basic

from kilonova.messaging.rabbit.transport_url import BrokerAddress, Tls, Transport

#: Exceptions of py-amqp. A connection or channel that has raised one of them is broken and must not be used again.
BROKEN = (OSError, amqp.AMQPError)
#: Timeout in seconds for each answer of the broker and for each write to its socket.
_TIMEOUT_S = 5.0


def _properties(buffer: Any, offset: int) -> tuple[dict[str, Any], int]:
    """Parse the properties of a received message. Malformed properties become {}: the message then has no sender."""
    try:
        found: tuple[dict[str, Any], int] = serialization.decode_properties_basic(buffer, offset)
    except Exception:  # noqa: BLE001 - the broker does not validate the properties that agents send
        return {}, offset
    return found


# Without this parser, py-amqp closes the connection at a malformed property, and the broker redelivers the message on
# each new connection, again and again.
serialization.PROPERTY_CLASSES[Basic.CLASS_ID] = _properties


def connect(transport: Transport, address: BrokerAddress, name: str) -> amqp.Connection:
    """Open a connection to one server of the broker. Raises: :data:`BROKEN`.

    ``name``: name of the connection in the broker's list of connections.
    """
    host = f"[{address.host}]" if ":" in address.host else address.host
    connection = amqp.Connection(
        f"{host}:{transport.port_of(address)}",
        address.user,
        address.password or "",
        login_method="EXTERNAL" if address.password is None else transport.login_method,
        virtual_host=transport.url.virtual_host,
        client_properties={"connection_name": name, "product": "Kilonova"},
        ssl=False if transport.tls is None else _tls_options(transport.tls, address.host),
        connect_timeout=_TIMEOUT_S,
        write_timeout=_TIMEOUT_S,
        heartbeat=transport.heartbeat_s,
    )
    try:
        connection.connect()
        connection.sock.settimeout(_TIMEOUT_S)
    except BaseException:
        discard(connection)
        raise
    # With the capability connection.blocked, py-amqp reads from the socket before each publish, and may call consumers
    # during the publish.
    connection.client_properties["capabilities"]["connection.blocked"] = False
    return connection


def discard(connection: amqp.Connection) -> None:
    """Drop a connection that may be broken, without a closing handshake."""
    connection.collect()


def close(connection: amqp.Connection) -> None:
    """Close a working connection with the closing handshake; drop the connection if the handshake fails."""
    try:
        connection.close()
    except BROKEN:
        discard(connection)


def _tls_options(tls: Tls, host: str) -> dict[str, Any]:
    return {
        "ca_certs": None if tls.ca_file is None else str(tls.ca_file),
        "certfile": None if tls.cert_file is None else str(tls.cert_file),
        "keyfile": None if tls.key_file is None else str(tls.key_file),
        "server_hostname": host,
        "tls_minimum_version": tls.minimum_version,
    }
