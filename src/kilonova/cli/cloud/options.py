# SPDX-License-Identifier: Apache-2.0
"""What commands that talk to a running cloud share: their options, and the connection that these lead to."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

if TYPE_CHECKING:  # slow to import, and not needed to show the help
    from kilonova.cli.cloud.connection import Connection

OPERATOR = "kilonova"
"""Type of the operator API in the cloud's catalogue."""

DataFolder = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Data folder of the cloud that `kilonova up` runs.")
]
AdminCloud = Annotated[
    str | None, typer.Option(metavar="NAME", help="Cloud of an administrator in clouds.yaml; default: kilonova.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print what the operator API answers.")]


class Api(Protocol):
    """What commands that only read need of a connection to a cloud."""

    def get(self, service: str, path: str, version: str | None = None, **query: str) -> Any: ...


class WritableApi(Api, Protocol):
    """What commands that change something need."""

    def call(self, method: str, service: str, path: str, version: str | None = None, **arguments: Any) -> Any: ...


def connect(data: Path | None, os_cloud: str | None) -> "Connection":
    """Return a connection to the cloud of the options. Raises: ConfigurationError."""
    from kilonova.cli.cloud.connection import Connection, find_cloud  # noqa: PLC0415  # slow to import

    return Connection(find_cloud(data, os_cloud))
