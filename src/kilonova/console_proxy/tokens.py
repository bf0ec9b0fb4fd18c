# SPDX-License-Identifier: Apache-2.0
"""Lookup of a token's console through the compute API, as a user with the role ``service`` (ADR 30)."""

from typing import Any, Protocol
from urllib.parse import quote

from keystoneauth1 import exceptions

from kilonova.errors import Unavailable
from kilonova.records import dataclass

_OK, _NOT_FOUND = 200, 404
#: 2.31 is the first microversion that shows tokens of all console types.
_VERSION = {"OpenStack-API-Version": "compute 2.31", "Accept": "application/json"}


@dataclass(frozen=True, slots=True)
class Console:
    """The console of a server. ``address``, ``port``: where its hypervisor listens."""

    instance_uuid: str
    address: str
    port: int


class Tokens(Protocol):
    """Lookup of consoles by token."""

    def find(self, token: str) -> Console | None:
        """Return the console of a token, None if the token is invalid or expired. Raises: Unavailable."""


class ComputeApi:
    """Lookup through the compute API. Thread-safe.

    ``adapter``: keystoneauth Adapter of a user with the role ``service``.
    """

    def __init__(self, adapter: Any) -> None:
        self._adapter = adapter

    def find(self, token: str) -> Console | None:
        path = f"/os-console-auth-tokens/{quote(token, safe='')}"
        try:  # log=False, because the path contains the token
            answer = self._adapter.get(path, headers=_VERSION, raise_exc=False, log=False)
        except (exceptions.ClientException, exceptions.AuthPluginException) as error:
            # The text of these errors is not quoted, because it contains the URL with the token.
            raise Unavailable(f"The compute API cannot be reached to check a token: {type(error).__name__}.") from None
        if answer.status_code == _NOT_FOUND:
            return None
        if answer.status_code != _OK:
            raise Unavailable(f"The compute API answered a token lookup with status {answer.status_code}.")
        try:
            told = answer.json()["console"]
            console = Console(str(told["instance_uuid"]), str(told["host"]), int(told["port"]))
            path_there = told.get("internal_access_path")
        except (ValueError, KeyError, TypeError, AttributeError):
            raise Unavailable("The compute API answered a token lookup with an invalid body.") from None
        if path_there:
            raise Unavailable("The console needs an internal access path at its hypervisor, which is not supported.")
        return console
