# SPDX-License-Identifier: Apache-2.0
"""The only mapping of exceptions to HTTP statuses and fault bodies.

Nova's body: ``{"itemNotFound": {"code": 404, "message": "..."}}``.
Placement's: ``{"errors": [{"status", "title", "detail", "request_id", "code"}]}``.
"""

from html import escape
from typing import Any

from kilonova import errors

_STATUS: tuple[tuple[type[errors.KilonovaError], int], ...] = (
    (errors.InvalidRequest, 400),
    (errors.Forbidden, 403),
    (errors.NotFound, 404),
    (errors.Conflict, 409),
    (errors.NoValidHost, 409),
    (errors.Unsupported, 501),
    (errors.StorageFull, 507),
    (errors.Unavailable, 503),
)

_COMPUTE_NAMES = {
    400: "badRequest",
    401: "unauthorized",
    403: "forbidden",
    404: "itemNotFound",
    405: "badMethod",
    409: "conflictingRequest",
    413: "overLimit",
    415: "badMediaType",
    429: "overLimit",
    501: "notImplemented",
    503: "serviceUnavailable",
    507: "insufficientStorage",
}

#: Maximum length of a fault's message in characters. A message may quote the request, which may be large.
_LONGEST = 10_000
_TITLES = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    409: "Conflict",
    410: "Gone",
    413: "Request Entity Too Large",
    414: "URI Too Long",
    415: "Unsupported Media Type",
    500: "Internal Server Error",
    501: "Not Implemented",
    503: "Service Unavailable",
    507: "Insufficient Storage",
}


class HttpError(errors.KilonovaError):
    """An error with an HTTP status that no other exception has, e.g. 405. ``headers``: headers of the reply."""

    code = "http.refused"

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def status_of(error: BaseException) -> int:
    """Return the HTTP status of an error; 500 for any unexpected exception."""
    if isinstance(error, HttpError):
        return error.status
    for kind, status in _STATUS:
        if isinstance(error, kind):
            return status
    return 500


def message_of(error: BaseException) -> str:
    """Return the message for the client. For an unexpected exception it contains only the exception's type."""
    if isinstance(error, HttpError) or (isinstance(error, errors.KilonovaError) and status_of(error) != 500):
        return error.message if len(error.message) <= _LONGEST else f"{error.message[:_LONGEST]} …"
    return f"Unexpected API Error. The request id names the entry in the log of the API service.\n{type(error)}"


def compute_fault(status: int, message: str) -> dict[str, Any]:
    """Return the fault body in Nova's format."""
    return {_COMPUTE_NAMES.get(status, "computeFault"): {"code": status, "message": message}}


def as_text(kind: str, status: int, message: str) -> bytes:
    """Return a fault as an HTML page or plain text, for a client that does not accept JSON."""
    title = f"{status} {title_of(status)}"
    if kind == "text/html":
        return (
            f"<html><head><title>{title}</title></head><body><h1>{title}</h1>{escape(message)}</body></html>".encode()
        )
    return f"{title}\n\n{message}\n".encode()


def title_of(status: int) -> str:
    return _TITLES.get(status, "Error")
