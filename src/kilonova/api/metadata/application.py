# SPDX-License-Identifier: Apache-2.0
"""Metadata of guests, for requests that a metadata agent forwards.

The agent finds out which guest has sent a request, and names the guest's server in headers. It signs the server's id
with a secret that it shares with Kilonova. Status 400: headers are missing. Status 403: the signature is wrong. Status
404: the project has no such server, or its metadata have no such path.

Source: Nova's metadata service, as Neutron's agents call it.
"""

import hashlib
import hmac
import http
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Any

from cachetools import TTLCache

from kilonova.api.application import WsgiApp
from kilonova.errors import KilonovaError, Unavailable
from kilonova.guest_metadata.passwords import LARGEST, STATUSES, is_password, read_password
from kilonova.guest_metadata.served import ROOTS, content_type, find
from kilonova.model.posted_password import PostResult
from kilonova.records import dataclass

LOG = logging.getLogger(__name__)
_MOST = 1_000
_ID, _PROJECT, _SIGNATURE = "HTTP_X_INSTANCE_ID", "HTTP_X_TENANT_ID", "HTTP_X_INSTANCE_ID_SIGNATURE"

#: Function that returns path → content of a server's metadata, or None if the project has no such server. Arguments:
#: ids of the server and of the project.
FilesOf = Callable[[str, str], Mapping[str, bytes] | None]
#: Stores the password that a guest posts. Arguments: server, project, password.
Post = Callable[[str, str, str], PostResult]


@dataclass(frozen=True, slots=True)
class MetadataApi:
    """WSGI application. ``secret``: the secret with which agents sign requests.

    Metadata of a server are cached for ``kept_s`` seconds, because a guest reads many paths in succession.
    """

    secret: str = field(repr=False)
    files: FilesOf
    post: Post
    kept_s: float
    _known: TTLCache[tuple[str, str], Mapping[str, bytes] | None] = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_known", TTLCache(_MOST, self.kept_s))

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        status, kind, body = self._answer(environ)
        headers = [("Content-Type", f"{kind}; charset=UTF-8"), ("Content-Length", str(len(body)))]
        start_response(f"{status} {http.HTTPStatus(status).phrase}", headers)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    def _answer(self, environ: Mapping[str, Any]) -> tuple[int, str, bytes]:
        path = f"{environ.get('SCRIPT_NAME', '')}{environ.get('PATH_INFO', '')}"
        posts = environ["REQUEST_METHOD"] == "POST" and is_password(path)
        if not (posts or environ["REQUEST_METHOD"] in {"GET", "HEAD"}):
            return _refusal(405)
        server, project, signature = (environ.get(name, "") for name in (_ID, _PROJECT, _SIGNATURE))
        if not (server and project and signature):
            return _refusal(400)
        expected = hmac.new(self.secret.encode(), server.encode(), hashlib.sha256).hexdigest()
        if not hmac.compare_digest(expected.encode(), signature.encode()):
            LOG.warning("A request for metadata with a wrong signature was refused; server %s", server)
            return _refusal(403)
        try:
            if posts:
                return self._post(server, project, read_password(environ["wsgi.input"]))
            files = self._files(server, project)
        except KilonovaError as error:
            LOG.warning("The metadata of server %s cannot be read or written: %s", server, error.message)
            return _refusal(503 if isinstance(error, Unavailable) else 500)
        found = None if files is None else find(files, path)
        if found is None:
            return _refusal(404)
        return 200, content_type(path), found

    def _post(self, server: str, project: str, password: str) -> tuple[int, str, bytes]:
        result = self.post(server, project, password)
        if result is not PostResult.STORED:
            return _refusal(STATUSES[result])
        with self._lock:
            self._known.pop((server, project), None)
        return 200, "text/plain", b""

    def _files(self, server: str, project: str) -> Mapping[str, bytes] | None:
        with self._lock:
            if (server, project) in self._known:
                return self._known[server, project]
        files = self.files(server, project)
        with self._lock:
            self._known[server, project] = files
        return files


def with_metadata(application: WsgiApp, metadata: WsgiApp) -> WsgiApp:
    """Return an application that also serves the paths of the metadata service.

    A guest chooses the path of a signed request. So a signed request with any path goes to the metadata service, and
    never to another API.
    """

    def dispatch(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        first = str(environ.get("PATH_INFO", "")).strip("/").partition("/")[0]
        return (metadata if first in ROOTS or _SIGNATURE in environ else application)(environ, start_response)

    return dispatch


def largest_from_guest(method: str, path: str) -> int:
    """Return the size of the largest body that a guest may post to a path; 0 if guests post nothing there."""
    return LARGEST if method == "POST" and is_password(path) else 0


def _refusal(status: int) -> tuple[int, str, bytes]:
    return status, "text/plain", f"{status} {http.HTTPStatus(status).phrase}\n".encode()
