# SPDX-License-Identifier: Apache-2.0
"""Checks that a project exists. Without Keystone every id is accepted."""

import logging
from typing import Protocol
from urllib.parse import quote

import requests

from kilonova.errors import InvalidRequest
from kilonova.logs import outgoing
from kilonova.logs.request_context import outgoing_headers

LOG = logging.getLogger(__name__)
_TIMEOUT_S = 30


class Projects(Protocol):
    """A check that a project exists."""

    def require(self, project_id: str, *, token: str | None) -> None:
        """Raise InvalidRequest if the project certainly does not exist."""


class AnyProject:
    """Accepts every id as that of an existing project."""

    def require(self, project_id: str, *, token: str | None) -> None:
        pass


class KeystoneProjects:
    """Looks a project up in Keystone with the caller's token.

    If Keystone forbids the lookup or is down, the check passes.
    ``url``: Keystone's address, with or without ``/v3``. ``verify``: a CA file, or whether certificates are checked.
    """

    def __init__(self, url: str, *, verify: bool | str = True) -> None:
        self._url = url.rstrip("/").removesuffix("/v3")
        self._session = requests.Session()
        self._session.verify = verify

    def require(self, project_id: str, *, token: str | None) -> None:
        headers = {"X-Auth-Token": token or "", "Accept": "application/json", **outgoing_headers()}
        path = f"{self._url}/v3/projects/{quote(project_id, safe='')}"
        try:
            answer = self._session.get(path, headers=headers, timeout=_TIMEOUT_S)
        except requests.RequestException as error:
            LOG.warning("Cannot check project %r: Keystone is unreachable: %s", project_id, error)
            return
        status = answer.status_code
        outgoing.tell(LOG, "Keystone", "GET", path, status, answer.headers)
        if status == requests.codes.not_found:
            raise InvalidRequest(f"Project ID {project_id} is not a valid project.", field="project_id")
        if status != requests.codes.ok:
            LOG.warning("Cannot check project %r: Keystone answered %d", project_id, status)
