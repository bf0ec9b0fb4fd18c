# SPDX-License-Identifier: Apache-2.0
"""Reading of request bodies up to their size limit. Chunked bodies and all WSGI servers are supported."""

from collections.abc import Mapping
from typing import Any

from kilonova.api.faults import HttpError
from kilonova.errors import InvalidRequest, Unavailable
from kilonova.wsgi_keys import BODY_REFUSED

_PIECE = 1 << 16


def read_body(environ: Mapping[str, Any], most: int) -> bytes:
    """Return the body. Raises: InvalidRequest, HttpError 413 for more than ``most`` bytes, Unavailable."""
    refused = environ.get(BODY_REFUSED)
    if refused == 413:  # the WSGI server refused the size of the body, and has not read the body
        raise _too_large(most)
    if refused:  # the WSGI server has not read the body, because it could not validate the token
        raise Unavailable("The token could not be validated when the request arrived; send the request again.")
    text = environ.get("CONTENT_LENGTH") or "0"
    if not (text.isascii() and text.isdecimal()):
        raise InvalidRequest("content-length header must be an integer")
    length = int(text[:20])
    if length > most:
        raise _too_large(most)
    if length:
        return _read(environ["wsgi.input"], length)
    if environ.get("HTTP_TRANSFER_ENCODING", "").lower() == "chunked":
        body = _read(environ["wsgi.input"], most + 1)
        if len(body) > most:
            raise _too_large(most)
        return body
    return b""


def _read(stream: Any, most: int) -> bytes:
    """Return ``most`` bytes, or all if the stream has fewer. Reads repeatedly, since one ``read`` may return fewer."""
    first: bytes = stream.read(most)
    if len(first) == most or not first:
        return first
    parts, left = [first], most - len(first)
    while left and (part := stream.read(min(left, _PIECE))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _too_large(most: int) -> HttpError:
    return HttpError(413, f"The body of the request is larger than {most} bytes.")
