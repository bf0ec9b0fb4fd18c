# SPDX-License-Identifier: Apache-2.0
"""Image data in Glance, streamed in chunks with the credentials of Kilonova's own user."""

import logging
from collections.abc import Iterator
from dataclasses import field
from typing import Any
from urllib.parse import quote

from keystoneauth1 import exceptions
from keystoneauth1.session import Session
from urllib3.exceptions import HTTPError

from kilonova.errors import Conflict, Forbidden, NotFound, Unavailable
from kilonova.images.data import Body, Stored
from kilonova.images.endpoints import Endpoints
from kilonova.records import dataclass

LOG = logging.getLogger(__name__)
PIECE = 1 << 16
_OK, _NO_CONTENT, _PARTIAL = 200, 204, 206
#: Status codes of temporary failures, and 401 for an expired token of Kilonova's user.
_LATER = frozenset({401, 408, 429, 500, 502, 503, 504})
_UNREACHABLE = "The image service cannot be reached."


@dataclass(frozen=True, slots=True)
class GlanceDownload:
    """A running download. ``answer``: Glance's response, whose body is still unread."""

    start: int
    size_bytes: int | None
    content_range: str | None
    answer: Any = field(repr=False)

    def __iter__(self) -> Iterator[bytes]:
        try:
            while piece := self.answer.raw.read(PIECE):
                yield piece
        except HTTPError as error:
            raise ConnectionError("The image service broke off the download of an image.") from error

    def close(self) -> None:
        self.answer.close()


class GlanceData:
    """An ``ImageStore`` in Glance. ``session``: session of Kilonova's own user; ``endpoints``: URLs without ``/v2``."""

    def __init__(self, session: Session, *endpoints: str) -> None:
        self._session = session
        self._glance = Endpoints(session, endpoints)

    def read(self, image_id: str, start: int = 0) -> GlanceDownload:
        headers = {"Accept": "application/octet-stream"} | ({"Range": f"bytes={start}-"} if start else {})
        answer = self._ask("GET", f"{_path(image_id)}/file", headers=headers, stream=True, log=False)
        if answer.status_code in {_OK, _PARTIAL}:
            length = answer.headers.get("Content-Length")
            begins_at = start if answer.status_code == _PARTIAL else 0
            return GlanceDownload(
                begins_at, None if length is None else int(length), answer.headers.get("Content-Range"), answer
            )
        answer.close()
        if answer.status_code == _NO_CONTENT:
            raise Conflict(f"Image {image_id} has no data.")
        raise _refusal(image_id, answer)

    def write(self, image_id: str, body: Body, size_bytes: int | None) -> Stored:
        status = self._image(image_id)["status"]
        if status != "queued":
            raise Conflict(f"Image {image_id} is {status}, and accepts data only while it is queued.")
        counted = _Counted(body) if size_bytes is None else _Sized(body, size_bytes)
        headers = {"Content-Type": "application/octet-stream"}
        try:
            # The upload is not retried: the part of the body that was already read cannot be read again.
            answer = self._ask(
                "PUT", f"{_path(image_id)}/file", headers=headers, data=counted, allow_reauth=False, log=False
            )
        except Unavailable:
            if counted.error is not None:
                raise counted.error from None
            raise
        if answer.status_code == 401:
            self._session.invalidate()
        if answer.status_code != _NO_CONTENT:
            raise _refusal(image_id, answer)
        image = self._image(image_id)
        if image.get("size") != counted.taken:
            raise Conflict(f"Image {image_id} has {image.get('size')} bytes after an upload of {counted.taken} bytes.")
        return Stored(counted.taken, image.get("os_hash_algo") or "", image.get("os_hash_value") or "")

    def _image(self, image_id: str) -> Any:
        answer = self._ask("GET", _path(image_id))
        if answer.status_code != _OK:
            raise _refusal(image_id, answer)
        return answer.json()

    def _ask(self, method: str, path: str, **more: Any) -> Any:
        try:
            return self._glance.request(path, method, redirect=False, **more)
        except (exceptions.ClientException, HTTPError) as error:
            # The error is only logged, because hosts must not see its details.
            LOG.warning("Request of Kilonova's user to the image service failed: %s", error)
            raise Unavailable(_UNREACHABLE) from error


class _Counted:
    """An upload body that counts its bytes. ``error``: the exception that ended the reading of the body, or None."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self.taken = 0
        self.error: OSError | None = None

    def read(self, size: int = PIECE) -> bytes:
        try:
            piece = self._body.read(min(size, PIECE) if size > 0 else PIECE)
        except OSError as error:
            self.error = error
            raise
        self.taken += len(piece)
        return piece

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.read, b"")


class _Sized(_Counted):
    def __init__(self, body: Body, size_bytes: int) -> None:
        super().__init__(body)
        self.len = size_bytes  # ``requests`` reads the Content-Length from this attribute


def _path(image_id: str) -> str:
    return f"/v2/images/{quote(image_id, safe='')}"


def _refusal(image_id: str, answer: Any) -> Exception:
    """Return the error that a host receives for an error response of the image service."""
    status = answer.status_code
    if status in {400, 404, 410}:
        return NotFound(f"Image {image_id} could not be found.")
    if status == 403:
        return Forbidden(f"The image service denies Kilonova's user access to image {image_id}.")
    if status in {409, 413}:
        return Conflict(f"The image service refused the data of image {image_id}: {status}.")
    if status in _LATER:
        return Unavailable(f"The image service answered {status}.")
    return Unavailable(f"The image service answered with unexpected status {status}.")
