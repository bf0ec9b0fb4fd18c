# SPDX-License-Identifier: Apache-2.0
"""Database connections with a client-side timeout for every answer.

A frozen server, or a network that drops packets, breaks no connection, so a client without a timeout would wait for
ever. Timeouts that the server enforces, such as ``statement_timeout``, do not help in that case.
"""

import os
import socket
from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL

#: Timeout for a connection attempt in seconds, handshake and login included.
CONNECT_S = 5

Connect = Callable[[], Any]


def connector(
    dialect: sa.Dialect, url: URL, longest_wait_s: float | None, *, pipelines: bool = False, **more: Any
) -> Connect:
    """Return a function that opens driver connections which wait at most ``longest_wait_s`` for one answer.

    ``pipelines``: whether MariaDB shall accept several statements in one message.
    """
    arguments, options = dialect.create_connect_args(url)
    options = {**_defaults(dialect), **options, **more}
    if dialect.name == "postgresql":
        return lambda: _postgresql(arguments, options, longest_wait_s)
    return lambda: _mariadb(dialect, arguments, options, longest_wait_s, pipelines=pipelines)


def socket_of(connection: Any) -> socket.socket:
    """Return a duplicate of the socket of a driver's connection, which another thread may shut down.

    The driver may close its own socket meanwhile, and the kernel may then reuse that file descriptor.
    """
    number = connection.fileno() if hasattr(connection, "fileno") else connection._sock.fileno()  # noqa: SLF001
    return socket.socket(fileno=os.dup(number))


def _defaults(dialect: sa.Dialect) -> Mapping[str, Any]:
    if dialect.name == "postgresql":
        return {
            "connect_timeout": CONNECT_S,
            "keepalives_idle": 30,
            "keepalives_interval": 10,
            "keepalives_count": 3,
        }
    return {"connect_timeout": CONNECT_S}


def _postgresql(arguments: Any, options: Mapping[str, Any], longest_wait_s: float | None) -> Any:
    from kilonova.db.core.psycopg_connection import PatientConnection  # noqa: PLC0415 - the driver may not be installed

    connection = PatientConnection.connect(*arguments, **options)
    connection.longest_wait_s = longest_wait_s
    return connection


def _mariadb(
    dialect: sa.Dialect, arguments: Any, options: Mapping[str, Any], longest_wait_s: float | None, *, pipelines: bool
) -> Any:
    """Connect to MariaDB. PyMySQL's connect timeout covers only TCP; the handshake is limited by its read timeout."""
    limits = {"read_timeout": options["connect_timeout"], "write_timeout": options["connect_timeout"]}
    connect: Any = dialect.connect
    if pipelines:
        from kilonova.db.core.pymysql_connection import PipeliningConnection  # noqa: PLC0415 - it may not be installed

        connect = PipeliningConnection
    connection = connect(*arguments, **{**options, **limits})
    connection._read_timeout = connection._write_timeout = longest_wait_s  # noqa: SLF001 - PyMySQL has no public setter
    return connection
