# SPDX-License-Identifier: Apache-2.0
"""Opening and ending connections of py-amqp, none of whose calls waits for long."""

from typing import Any

import amqp
from amqp import serialization
from amqp.spec import Basic

from kilonova.messaging.rabbit.transport_url import BrokerAddress, Tls, Transport

#: Everything that py-amqp raises when a connection or channel is no good any more. It must not be used afterwards.
BROKEN = (OSError, amqp.AMQPError)
#: Seconds that the broker has for each answer, and for taking what is written to it.
_PATIENCE_S = 5.0


def _properties(buffer: Any, offset: int) -> tuple[dict[str, Any], int]:
    """Read the properties of a message; none of what cannot be read, so that nobody vouches for it."""
    try:
        found: tuple[dict[str, Any], int] = serialization.decode_properties_basic(buffer, offset)
    except Exception:  # noqa: BLE001 - whatever it is, the broker lets agents write it
        return {}, offset
    return found


# py-amqp gives a connection up when it cannot read a property, and the broker would send the message again for ever.
serialization.PROPERTY_CLASSES[Basic.CLASS_ID] = _properties


def connect(transport: Transport, address: BrokerAddress, name: str) -> amqp.Connection:
    """Return an open connection. Raises: :data:`BROKEN`.

    ``name``: what operators see in the broker's list of connections.
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
        connect_timeout=_PATIENCE_S,
        write_timeout=_PATIENCE_S,
        heartbeat=transport.heartbeat_s,
    )
    try:
        connection.connect()
        connection.sock.settimeout(_PATIENCE_S)
    except BaseException:
        discard(connection)
        raise
    # Else py-amqp reads what the broker has sent before each message that it writes, in the middle of what we do.
    connection.client_properties["capabilities"]["connection.blocked"] = False
    return connection


def discard(connection: amqp.Connection) -> None:
    """End a connection that may be broken: nothing is said to the broker, and nothing waited for."""
    connection.collect()


def close(connection: amqp.Connection) -> None:
    """End a connection that works, in the orderly way."""
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
