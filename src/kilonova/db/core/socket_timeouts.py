# SPDX-License-Identifier: Apache-2.0
"""Connections to a database server that wait for an answer only so long, however dead the server is.

A server that is stopped, or that a network drops packets to, breaks no connection: whoever waits for its answer waits
for ever. Limits that the server keeps itself, such as ``statement_timeout``, do not help then.
"""

import os
import socket
from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL

#: Seconds to connect, all that is said until the connection can be used among it.
CONNECT_S = 5

Connect = Callable[[], Any]


def connector(dialect: sa.Dialect, url: URL, longest_wait_s: float | None, **more: Any) -> Connect:
    """Return what makes connections of a driver, each of which waits at most ``longest_wait_s`` for one answer."""
    arguments, options = dialect.create_connect_args(url)
    options = {**_defaults(dialect), **options, **more}
    if dialect.name == "postgresql":
        return lambda: _postgresql(arguments, options, longest_wait_s)
    return lambda: _mariadb(dialect, arguments, options, longest_wait_s)


def socket_of(connection: Any) -> socket.socket:
    """Return the socket of a driver's connection a second time, so that it can be shut down from another thread.

    It has a number of its own: the driver may close its own meanwhile, and somebody else get that number.
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


def _mariadb(dialect: sa.Dialect, arguments: Any, options: Mapping[str, Any], longest_wait_s: float | None) -> Any:
    """What the driver calls the time to connect ends with TCP's part of it; what comes after counts as reading."""
    limits = {"read_timeout": options["connect_timeout"], "write_timeout": options["connect_timeout"]}
    connection: Any = dialect.connect(*arguments, **{**options, **limits})
    connection._read_timeout = connection._write_timeout = longest_wait_s  # noqa: SLF001 - it has no other way
    return connection
