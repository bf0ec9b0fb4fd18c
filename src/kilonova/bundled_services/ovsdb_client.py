# SPDX-License-Identifier: Apache-2.0
"""Client of a database of Open vSwitch or OVN: reads tables, and waits for changes. Source: RFC 7047.

The programs ``ovs-vsctl`` and ``ovn-nbctl`` do the same, but read the whole database each time.
"""

import itertools
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from kilonova.bundled_services.ovn_connection import OvnConnection
from kilonova.errors import Unavailable

_TIMEOUT_S = 10.0
_CHUNK = 65_536

#: A row: column → value. Maps are dicts, sets are tuples, and ids are texts.
Row = Mapping[str, Any]


class OvsdbClient:
    """An open connection to the database ``database``. Not thread-safe."""

    def __init__(self, connection: OvnConnection, database: str) -> None:
        self._database = database
        self._numbers = itertools.count()
        self._unread = ""
        self._changed = False
        self._decoder = json.JSONDecoder()
        try:
            self._socket = connection.open(_TIMEOUT_S)
        except OSError as error:
            raise Unavailable(f"the database {database} cannot be reached: {error}") from error

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def read(self, table: str, columns: Sequence[str]) -> tuple[Row, ...]:
        """Return all rows of a table. Raises: Unavailable."""
        operation = {"op": "select", "table": table, "where": [], "columns": list(columns)}
        (result,) = self._call("transact", self._database, operation)
        if "rows" not in result:
            raise Unavailable(f"{table} of {self._database} cannot be read: {result}")
        return tuple({name: _value(value) for name, value in row.items()} for row in result["rows"])

    def watch(self, tables: Mapping[str, Sequence[str]]) -> None:
        """Request reports of all further changes to these columns. Raises: Unavailable."""
        asked = {table: {"columns": list(columns)} for table, columns in tables.items()}
        self._call("monitor", self._database, "changes", asked)

    def changed(self) -> bool:
        """Return whether a change was reported since the last call. Call it when the connection is readable.

        Raises: Unavailable.
        """
        self._receive()
        while self._next_message() is not None:
            pass
        changed, self._changed = self._changed, False
        return changed

    def _call(self, method: str, *params: Any) -> Any:
        number = next(self._numbers)
        self._send({"method": method, "params": params, "id": number})
        deadline = time.monotonic() + _TIMEOUT_S
        while time.monotonic() < deadline:
            message = self._next_message()
            if message is None:
                self._receive()
            elif message.get("id") == number:
                if message.get("error") is not None:
                    raise Unavailable(f"{self._database} refuses {method}: {message['error']}")
                return message["result"]
        raise Unavailable(f"the database {self._database} does not answer")

    def _next_message(self) -> dict[str, Any] | None:
        """Return the next complete answer that was received, or None. Handle echo requests and reports of changes."""
        while self._unread:
            try:
                message, end = self._decoder.raw_decode(self._unread)
            except json.JSONDecodeError:
                return None
            self._unread = self._unread[end:].lstrip()
            match message.get("method"):
                case "echo":  # the server closes a connection whose client does not answer echo requests
                    self._send({"result": message["params"], "error": None, "id": message["id"]})
                case "update":
                    self._changed = True
                case None:
                    return dict(message)
        return None

    def _send(self, message: Mapping[str, Any]) -> None:
        try:
            self._socket.sendall(json.dumps(message).encode())
        except OSError as error:
            raise Unavailable(f"the database {self._database} is gone: {error}") from error

    def _receive(self) -> None:
        try:
            data = self._socket.recv(_CHUNK)
        except OSError as error:
            raise Unavailable(f"the database {self._database} is gone: {error}") from error
        if not data:
            raise Unavailable(f"the database {self._database} is gone")
        self._unread += data.decode("utf-8", "surrogateescape")


def _value(value: Any) -> Any:
    match value:
        case ["map", pairs]:
            return {_value(key): _value(each) for key, each in pairs}
        case ["set", values]:
            return tuple(_value(each) for each in values)
        case ["uuid", text]:
            return text
    return value
