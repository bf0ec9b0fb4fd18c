# SPDX-License-Identifier: Apache-2.0
"""Image data for compute hosts, streamed from and to the image service.

Every request needs a ticket, which is checked before any of the body is read. Status 401: the ticket is missing, forged
or expired. Status 403: the ticket is valid, but for another request.
"""

import http
import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any

import orjson

from kilonova.errors import Conflict, Forbidden, KilonovaError, NotFound, Unavailable
from kilonova.images.data import Download, ImageStore
from kilonova.images.tickets import Direction, InvalidTicketError, Ticket, TicketOffice
from kilonova.records import dataclass
from kilonova.wsgi_keys import BODY_REFUSED

LOG = logging.getLogger(__name__)
_BEARER = "Bearer "
_FROM_HERE_ON = re.compile(r"bytes=([0-9]{1,18})-")
_STATUS: Mapping[type[KilonovaError], int] = {NotFound: 404, Conflict: 409, Forbidden: 403, Unavailable: 502}


@dataclass(frozen=True, slots=True)
class Transfer:
    """An authorized request, with the ticket that allows it."""

    ticket: Ticket
    environ: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """HTTP reply. ``body``: bytes, or an iterable of chunks with a ``close`` method."""

    status: int
    body: Any = b""
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Route:
    """Handler of one HTTP method of one path. ``direction``: whether the ticket must allow reading or writing."""

    direction: Direction
    handler: Callable[[ImageStore, Transfer], Answer]


def _read(data: ImageStore, transfer: Transfer) -> Answer:
    asked = _FROM_HERE_ON.fullmatch(transfer.environ.get("HTTP_RANGE", ""))
    found = data.read(transfer.ticket.image_id, int(asked[1]) if asked else 0)
    headers = [("Content-Type", "application/octet-stream")]
    if found.size_bytes is not None:
        headers.append(("Content-Length", str(found.size_bytes)))
    if found.start and found.content_range:
        headers.append(("Content-Range", found.content_range))
    return Answer(206 if found.start else 200, found, tuple(headers))


def _write(data: ImageStore, transfer: Transfer) -> Answer:
    length = transfer.environ.get("CONTENT_LENGTH")
    stored = data.write(transfer.ticket.image_id, transfer.environ["wsgi.input"], int(length) if length else None)
    body = {"size": stored.size_bytes, "os_hash_algo": stored.hash_algo, "os_hash_value": stored.hash_value}
    return Answer(200, orjson.dumps(body), (("Content-Type", "application/json"),))


#: Path → method → route. The host and the image in the path must be those that the ticket names.
ROUTES: Mapping[str, Mapping[str, Route]] = {
    "/v1/hosts/{host}/images/{image_id}/file": {
        "GET": Route(Direction.READ, _read),
        "PUT": Route(Direction.WRITE, _write),
    },
}


def is_image_data(method: str, path: str) -> bool:
    """Whether a request uploads image data. Such requests are exempt from the limits on body sizes."""
    return method == "PUT" and path.startswith("/agents/") and path.endswith("/file")


@dataclass(frozen=True, slots=True)
class AgentsApi:
    """WSGI application of the agents API.

    ``data``: access to the image service as Kilonova's own user; None if the service or the user is not configured.
    ``has_agent``: tells whether a host has an agent session. ``room``: limits the number of concurrent transfers.
    """

    office: TicketOffice
    data: ImageStore | None
    has_agent: Callable[[str], bool]
    room: threading.BoundedSemaphore
    routes: Mapping[str, Mapping[str, Route]] = field(default_factory=lambda: ROUTES)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        answer = self._answer(environ)
        headers = list(answer.headers)
        if isinstance(answer.body, bytes):
            headers.append(("Content-Length", str(len(answer.body))))
        start_response(f"{answer.status} {http.HTTPStatus(answer.status).phrase}", headers)
        if isinstance(answer.body, bytes):
            return [answer.body]
        return _Transferred(answer.body, self.room)

    def _answer(self, environ: Mapping[str, Any]) -> Answer:
        method, path = environ["REQUEST_METHOD"], _text(environ.get("PATH_INFO", ""))
        try:
            ticket = self._ticket(environ)
            named, methods = self._find(path)
            route = methods.get(method)
            if route is None:
                return _refuse(405, "The method is not allowed.", ("Allow", ", ".join(methods)))
            self._require(ticket, route, named)
            answer = self._transfer(route, Transfer(ticket, environ))
        except InvalidTicketError:
            return _refuse(401, "A valid ticket is required.", ("WWW-Authenticate", "Bearer"))
        except KilonovaError as error:
            status = next((status for kind, status in _STATUS.items() if isinstance(error, kind)), 500)
            LOG.warning("%s %s: %d %s", method, path, status, error.message)
            return _refuse(status, error.message)
        LOG.info("Host %s: %s of image %s", ticket.host, ticket.direction, ticket.image_id)
        return answer

    def _transfer(self, route: Route, transfer: Transfer) -> Answer:
        """Call the handler if a slot for concurrent transfers is free; otherwise reply 503.

        A download keeps its slot until its body is closed. Raises: KilonovaError; OSError if the host disconnects.
        """
        if self.data is None:
            raise Unavailable("No image service is configured.")
        if not self.room.acquire(blocking=False):
            return _refuse(503, "Too many image transfers are in progress.", ("Retry-After", "1"))
        goes_on = False
        try:
            answer = route.handler(self.data, transfer)
            goes_on = not isinstance(answer.body, bytes)
            return answer
        finally:
            if not goes_on:
                self.room.release()

    def _ticket(self, environ: Mapping[str, Any]) -> Ticket:
        """Return the ticket of a request. Raises: InvalidTicketError."""
        said = environ.get("HTTP_AUTHORIZATION", "")
        if not said.startswith(_BEARER) or environ.get(BODY_REFUSED):
            raise InvalidTicketError
        return self.office.read(said.removeprefix(_BEARER))

    def _find(self, path: str) -> tuple[Mapping[str, str], Mapping[str, Route]]:
        """Return the parameters in ``path``, and HTTP method → route of this path. Raises: NotFound."""
        parts = path.split("/")
        for template, methods in self.routes.items():
            wanted = template.split("/")
            if len(wanted) == len(parts) and all(
                want == part or (want.startswith("{") and part) for want, part in zip(wanted, parts, strict=True)
            ):
                names = zip(wanted, parts, strict=True)
                return {want[1:-1]: part for want, part in names if want.startswith("{")}, methods
        raise NotFound("The resource could not be found.")

    def _require(self, ticket: Ticket, route: Route, named: Mapping[str, str]) -> None:
        """Raise Forbidden unless the ticket is for the request's direction, image and host.

        The host must also have an agent session. ``named``: the parameters in the request's path.
        """
        right = ticket.direction is route.direction and ticket.image_id == named["image_id"]
        if not right or ticket.host != named["host"] or not self.has_agent(ticket.host):
            raise Forbidden("The ticket does not allow this request.")


class _Transferred:
    """Body of a download in progress. The first call of ``close`` releases the download's transfer slot."""

    def __init__(self, download: Download, room: threading.BoundedSemaphore) -> None:
        self._download = download
        self._room = room
        self._is_open = True

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._download)

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._room.release()
            self._download.close()


def _text(path: str) -> str:
    return path.encode("latin-1").decode("utf-8", errors="replace")


def _refuse(status: int, message: str, *headers: tuple[str, str]) -> Answer:
    body = orjson.dumps({"code": status, "message": message})
    return Answer(status, body, (("Content-Type", "application/json"), *headers))
