# SPDX-License-Identifier: Apache-2.0
"""Common options of commands for a running cloud, and the connection to the cloud that these options select."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

if TYPE_CHECKING:  # these modules are slow to import, and --help does not need them
    from kilonova.cli.cloud.connection import Connection

OPERATOR = "kilonova"
"""Type of the operator API in the cloud's catalogue."""

DataFolder = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Data folder of the cloud that `kilonova up` runs.")
]
AdminCloud = Annotated[
    str | None, typer.Option(metavar="NAME", help="Cloud of an administrator in clouds.yaml; default: kilonova.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the operator API's answer as JSON.")]


class Api(Protocol):
    """Interface of a connection for commands that only read."""

    def get(self, service: str, path: str, version: str | None = None, **query: str) -> Any: ...


class WritableApi(Api, Protocol):
    """Interface of a connection for commands that also change something."""

    def call(self, method: str, service: str, path: str, version: str | None = None, **arguments: Any) -> Any: ...


#: The connection of the program that runs a command, if it has one: the stock client's.
_GIVEN: ContextVar["Connection | None"] = ContextVar("given connection", default=None)


@contextmanager
def using(connection: "Connection") -> Iterator[None]:
    """Context manager in which commands use this connection and ignore their options that select a cloud."""
    token = _GIVEN.set(connection)
    try:
        yield
    finally:
        _GIVEN.reset(token)


def connect(data: Path | None, os_cloud: str | None) -> "Connection":
    """Return a connection to the cloud that the options select. Raises: ConfigurationError."""
    given = _GIVEN.get()
    if given is not None:
        return given
    from kilonova.cli.cloud.connection import Connection, find_cloud  # noqa: PLC0415  # slow to import

    return Connection(find_cloud(data, os_cloud))
