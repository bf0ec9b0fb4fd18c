# SPDX-License-Identifier: Apache-2.0
"""Which console a token leads to: the compute API knows, and tells users with the role ``service`` (ADR 30)."""

from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote

from keystoneauth1 import exceptions

from kilonova.errors import Unavailable

_OK, _NOT_FOUND = 200, 404
#: The first microversion in which this is there for all types of consoles.
_VERSION = {"OpenStack-API-Version": "compute 2.31", "Accept": "application/json"}


@dataclass(frozen=True, slots=True)
class Console:
    """The console of a server, and where its hypervisor serves it."""

    instance_uuid: str
    address: str
    port: int


class Tokens(Protocol):
    """Knows what tokens lead to."""

    def find(self, token: str) -> Console | None:
        """Return the console that a token leads to, None when it does not count, or not any more.

        Raises: Unavailable, when that cannot be found out now.
        """


class ComputeApi:
    """Asks the compute API. ``adapter``: keystoneauth's, of a user with the role ``service``. Safe for threads."""

    def __init__(self, adapter: Any) -> None:
        self._adapter = adapter

    def find(self, token: str) -> Console | None:
        path = f"/os-console-auth-tokens/{quote(token, safe='')}"
        try:  # nothing of this is logged: the token is in the path
            answer = self._adapter.get(path, headers=_VERSION, raise_exc=False, log=False)
        except (exceptions.ClientException, exceptions.AuthPluginException) as error:
            # Messages of these have the address that was asked.
            raise Unavailable(f"The compute API cannot be asked about tokens: {type(error).__name__}.") from None
        if answer.status_code == _NOT_FOUND:
            return None
        if answer.status_code != _OK:
            raise Unavailable(f"The compute API does not tell about tokens: it answers {answer.status_code}.")
        try:
            told = answer.json()["console"]
            console = Console(str(told["instance_uuid"]), str(told["host"]), int(told["port"]))
            path_there = told.get("internal_access_path")
        except (ValueError, KeyError, TypeError, AttributeError):
            raise Unavailable("The compute API tells about a token what no proxy understands.") from None
        if path_there:
            raise Unavailable("The console is behind a proxy of its hypervisor, which is not supported.")
        return console
