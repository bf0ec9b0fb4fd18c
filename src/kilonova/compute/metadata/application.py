# SPDX-License-Identifier: Apache-2.0
"""Answers the metadata service of the host, which forwards the requests of guests over a Unix socket.

The forwarder names the guest in headers of its own; it forwards no header of the guest. Status 404: the control plane
knows no such guest here, or the guest has no such file. 429: the guest asks too often. 503: the control plane does not
answer.
"""

import http
import logging
from collections.abc import Callable, Iterable
from typing import Any

from kilonova.compute.metadata.answers import MetadataAnswers, Source
from kilonova.compute.metadata.throttle import Throttle
from kilonova.errors import KilonovaError
from kilonova.guest_metadata.passwords import STATUSES, is_password, read_password
from kilonova.guest_metadata.served import content_type, find
from kilonova.logs.rate_limited_log import RateLimitedLog

LOG = logging.getLogger(__name__)
_NETWORK, _ADDRESS, _MAC = "HTTP_X_KILONOVA_NETWORK", "HTTP_X_KILONOVA_ADDRESS", "HTTP_X_KILONOVA_MAC"
#: Requests of one guest. cloud-init makes about fifty when a guest boots.
_REQUESTS_PER_S, _REQUESTS_AT_ONCE = 50.0, 300
_RETRY_AFTER = ("Retry-After", "1")


class MetadataApplication:
    """WSGI application. ``answers``: metadata of the guests of the host."""

    def __init__(self, answers: MetadataAnswers, throttle: Throttle | None = None) -> None:
        self._answers = answers
        self._throttle = throttle or Throttle(_REQUESTS_PER_S, _REQUESTS_AT_ONCE)
        self._complaints = RateLimitedLog(LOG)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        status, kind, body = self._answer(environ)
        headers = [("Content-Type", f"{kind}; charset=UTF-8"), ("Content-Length", str(len(body)))]
        if status in {429, 503}:
            headers.append(_RETRY_AFTER)
        start_response(f"{status} {http.HTTPStatus(status).phrase}", headers)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    def _answer(self, environ: dict[str, Any]) -> tuple[int, str, bytes]:
        source = Source(environ.get(_NETWORK, ""), environ.get(_ADDRESS, ""), environ.get(_MAC, ""))
        if not (source.network_id and source.address):
            return _refusal(400)
        if not self._throttle.admits((source.network_id, source.address)):
            return _refusal(429)
        method, path = environ["REQUEST_METHOD"], environ.get("PATH_INFO", "") or "/"
        try:
            if method == "POST" and is_password(path):
                return self._post(source, read_password(environ["wsgi.input"]))
            if method not in {"GET", "HEAD"}:
                return _refusal(405)
            files = self._answers.files(source)
        except KilonovaError as error:
            self._complaints.complain("unavailable", f"Requests of guests for metadata get 503: {error.message}")
            return _refusal(503)
        content = None if files is None else find(files, path)
        return _refusal(404) if content is None else (200, content_type(path), content)

    def _post(self, source: Source, password: str) -> tuple[int, str, bytes]:
        status = STATUSES[self._answers.post_password(source, password)]
        return (200, "text/plain", b"") if status == 200 else _refusal(status)


def _refusal(status: int) -> tuple[int, str, bytes]:
    return status, "text/plain", f"{status} {http.HTTPStatus(status).phrase}\n".encode()
