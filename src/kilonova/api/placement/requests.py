# SPDX-License-Identifier: Apache-2.0
"""Code shared by Placement's handlers: media types, bodies, queries, and replies with timestamps."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import formatdate
from functools import lru_cache, wraps
from typing import Any

import orjson
from falcon.util import mediatypes

from kilonova.api.faults import HttpError
from kilonova.api.http import Context, Handler, Reply, Request
from kilonova.api.microversion import Version
from kilonova.api.placement.schemas.validation import BodySchemas, QuerySchemas
from kilonova.api.query_string import Query
from kilonova.errors import InvalidRequest

JSON = "application/json"
CACHE_VERSION = Version(1, 15)

UNDEFINED = "placement.undefined_code"
CONCURRENT_UPDATE = "placement.concurrent_update"
BAD_VALUE = "placement.query.bad_value"
MISSING_VALUE = "placement.query.missing_value"
DUPLICATE_KEY = "placement.query.duplicate_key"
PROVIDER_NOT_FOUND = "placement.resource_provider.not_found"


def acceptable(kind: str, accept: str) -> bool:
    """Whether the Accept header ``accept`` allows the media type ``kind``. An invalid header allows every type."""
    try:
        return mediatypes.quality(kind, accept) > 0
    except ValueError:
        return True


def gives_json(handler: Handler) -> Handler:
    """Decorator for handlers that reply with JSON: a client that does not accept JSON gets 406."""

    @wraps(handler)
    def checked(ctx: Context, request: Request) -> Reply:
        accept = request.headers.get("Accept")
        if accept and not acceptable(JSON, accept):
            raise HttpError(406, f"Only {JSON} is provided")
        return handler(ctx, request)

    return checked


def takes_json(handler: Handler) -> Handler:
    """Decorator for handlers that read a JSON body: a request with another content type gets 415."""

    @wraps(handler)
    def checked(ctx: Context, request: Request) -> Reply:
        kind = (request.headers.get("Content-Type") or "").split(";")[0].strip()
        if kind.lower() != JSON:
            raise HttpError(415, f"The media type {kind or None} is not supported, use {JSON}")
        return handler(ctx, request)

    return checked


def read_body(request: Request, schemas: BodySchemas) -> Any:
    """Return the decoded body, validated by the schema of the request's microversion. Raises: InvalidRequest."""
    raw: bytes = request.body or b""
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"Malformed JSON: {error}") from None
    schemas.check(body, request.version)
    if b"\\u0000" in raw:
        raise InvalidRequest("JSON does not validate: a string contains a NUL character, which cannot be stored.")
    return body


def read_query(request: Request, schemas: QuerySchemas) -> Mapping[str, str]:
    """Validate the request's query, and return query parameter → its last value. Raises: InvalidRequest."""
    return check_query(request.query, request.version, schemas)


def check_query(query: Query, version: Version, schemas: QuerySchemas) -> Mapping[str, str]:
    """Validate a query, and return query parameter → its last value. Raises: InvalidRequest."""
    last = {name: values[-1] for name, values in query.items()}
    schemas.check(last, version)
    return last


def dated(
    request: Request, body: Any, changed_at: datetime | None = None, *, status: int = 200, **headers: str
) -> Reply:
    """Return a reply with ``body``. Since 1.15 it has the headers ``Last-Modified`` and ``Cache-Control: no-cache``.

    ``changed_at``: value of ``Last-Modified``; None stands for the present time.
    """
    if request.version >= CACHE_VERSION:
        stamp = _http_date(int(time.time() if changed_at is None else changed_at.replace(tzinfo=UTC).timestamp()))
        headers |= {"Last-Modified": stamp, "Cache-Control": "no-cache"}
    return Reply(status, body, headers)


@lru_cache(maxsize=256)
def _http_date(timestamp: int) -> str:
    return formatdate(timestamp, usegmt=True)


def newest(*moments: datetime | None) -> datetime | None:
    """Return the latest of the times, or None if all of them are None."""
    return max((moment for moment in moments if moment is not None), default=None)
