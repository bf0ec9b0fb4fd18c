# SPDX-License-Identifier: Apache-2.0
"""Transfer of image data over HTTP between a host and a control process, authorized by a ticket (ADR 23)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from requests import Response, Session
from urllib3.exceptions import HTTPError

from kilonova.errors import ImageUnusable, TransferBroken, TransferPostponed
from kilonova.model.image_data import ImageData

_PIECE = 1 << 20
_TIMEOUTS_S = (10.0, 90.0)  # timeouts for connecting and for reading
_OK, _PARTIAL = 200, 206
#: HTTP status with which a control process refuses a transfer beyond its limit of concurrent transfers.
_BUSY = 503
#: HTTP statuses of permanent errors, after which a transfer is not retried.
_FINAL = frozenset({400, 401, 403, 404, 405, 409})


@contextmanager
def download(image: ImageData, start: int, *, verify: bool | str) -> Iterator[tuple[int, Iterator[bytes]]]:
    """Yield an offset, which is ``start`` or 0, and the data of an image from that offset on.

    Raises: TransferBroken, TransferPostponed, ImageUnusable.
    """
    headers = {"Range": f"bytes={start}-"} if start else {}
    with _ask("GET", image, verify, headers, None) as answer:
        yield start if answer.status_code == _PARTIAL else 0, _pieces(answer)


def upload(image: ImageData, data: Any, *, verify: bool | str) -> Any:
    """Upload the data of an image; return the image service's description of the image.

    Raises: TransferBroken, TransferPostponed, ImageUnusable.
    """
    with _ask("PUT", image, verify, {}, data) as answer:
        return answer.json()


def _pieces(answer: Response) -> Iterator[bytes]:
    try:
        while piece := answer.raw.read(_PIECE):
            yield piece
    except (HTTPError, OSError) as error:
        raise TransferBroken(f"The transfer broke: {type(error).__name__}.") from error


@contextmanager
def _ask(method: str, image: ImageData, verify: bool | str, headers: dict[str, str], data: Any) -> Iterator[Response]:
    headers = {"Authorization": f"Bearer {image.ticket}", "Accept-Encoding": "identity", **headers}
    with Session() as session:
        session.trust_env = False  # otherwise credentials from a .netrc file would replace the ticket
        try:
            answer = session.request(
                method,
                image.url,
                headers=headers,
                data=data,
                stream=True,
                verify=verify,
                timeout=_TIMEOUTS_S,
                allow_redirects=False,
            )
        # OSError is the base class of all exceptions of the library requests, and is raised for a missing CA file.
        except OSError as error:
            raise TransferBroken(f"The control plane cannot be reached: {type(error).__name__}.") from error
        with answer:
            if answer.status_code not in {_OK, _PARTIAL}:
                raise _refusal(image, answer.status_code)
            yield answer


def _refusal(image: ImageData, status: int) -> Exception:
    """Return the exception for a transfer that was answered with the HTTP error ``status``."""
    said = f"The control plane answered {status}."
    if status == _BUSY:
        return TransferPostponed(said)
    if status not in _FINAL:
        return TransferBroken(said)
    if status == 401:
        said = "The ticket for this image has expired or is invalid."
    elif status == 404:
        said = "The image no longer exists."
    return ImageUnusable(f"Image {image.image_id} cannot be transferred. {said}")
