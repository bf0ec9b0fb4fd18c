# SPDX-License-Identifier: Apache-2.0
"""GET /operator/v1/changes: the change feed, as server-sent events or by long polling."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kilonova import deadline
from kilonova.api.faults import HttpError
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes, integer_param
from kilonova.api.operator.schemas import changes as schemas
from kilonova.api.policy import ADMIN, rule
from kilonova.api.validation import invalid_parameter
from kilonova.change_feed.events import Batch
from kilonova.change_feed.feed import ChangeFeed, Subscription, TooManyClients
from kilonova.errors import Unavailable

RULES = (rule("kilonova:changes:list", ADMIN, "Follow the changes of the cloud", ("GET", "/operator/v1/changes")),)
#: A stream ends after this time at the latest, so that a change of policies or a revoked token ends it, too.
LONGEST_S = 900.0
_RETRY_AFTER_S = "5"
_LOOK_EVERY_S = 0.5
_EVENTS = "text/event-stream"


def follow_changes(ctx: Context, request: Request) -> Reply:
    """GET /v1/changes.  Errors: 400 naming the parameter; 429 if there are too many clients."""
    ctx.authorize("kilonova:changes:list")
    feed = ctx.backend.feed
    if feed is None:
        raise Unavailable("This process has no change feed.")
    after, wait_s = _after(request), integer_param(request, "wait")
    seconds = _seconds_left(ctx)
    try:
        if wait_s is not None:
            return Reply(200, _poll(feed, ctx, after, min(float(wait_s), seconds)))
        if ctx.hand_over is None:
            raise invalid_parameter("wait", None, "This server has no streams of events: poll with wait=SECONDS.")
        if request.method != "HEAD":
            ctx.hand_over(ChangeStream(feed, ctx.user_id, after, seconds))
    except TooManyClients as error:
        raise HttpError(429, str(error), Retry_After=_RETRY_AFTER_S) from None
    return Reply(200, b"", {"Content-Type": _EVENTS, "Cache-Control": "no-store", "X-Accel-Buffering": "no"})


def _after(request: Request) -> int | None:
    """Return the position of the client: that of the last event before a reconnection, or of its first request."""
    seen = request.headers.get("Last-Event-ID", "")
    if seen.isascii() and seen.isdigit() and len(seen) < schemas.DIGITS:
        return int(seen)
    return integer_param(request, "after")


def _seconds_left(ctx: Context) -> float:
    if ctx.token_expires_at is None:
        return LONGEST_S
    return min(LONGEST_S, (ctx.token_expires_at - ctx.now()).total_seconds())


def _poll(feed: ChangeFeed, ctx: Context, after: int | None, wait_s: float) -> dict[str, Any]:
    """Return the next batch, as soon as there are events, or an empty one after ``wait_s`` seconds."""
    news = threading.Event()
    with feed.waiting(), _subscribed(feed, ctx.user_id, after, news.set) as client:
        until, is_read = time.monotonic() + wait_s, False
        while True:
            news.wait(min(_LOOK_EVERY_S, max(0.01, until - time.monotonic())))
            news.clear()
            batch = client.take()
            if batch is not None and (batch.events or batch.is_reload):
                return batch.as_answer
            is_read = is_read or batch is not None  # the first batch comes as soon as the log has been read
            if time.monotonic() >= (until if is_read else until + _LOOK_EVERY_S):
                return Batch(client.after).as_answer
            deadline.check()


@contextmanager
def _subscribed(feed: ChangeFeed, user_id: str, after: int | None, wake: Callable[[], None]) -> Iterator[Subscription]:
    client = feed.subscribe(user_id, after, LONGEST_S, wake)
    try:
        yield client
    finally:
        client.close()


class ChangeStream:
    """The feed of one client as a stream of the HTTP server. Raises: TooManyClients, Unavailable."""

    def __init__(self, feed: ChangeFeed, user_id: str, after: int | None, seconds: float) -> None:
        self._wake: Callable[[], None] = lambda: None
        self._client: Subscription = feed.subscribe(user_id, after, seconds, self._notify)

    def _notify(self) -> None:
        self._wake()

    def attach(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def take(self) -> bytes | None:
        if self._client.is_over:
            return None
        batch = self._client.take()
        return b"" if batch is None else batch.as_stream

    def close(self) -> None:
        self._client.close()


ROUTES: Routes = {"/v1/changes": {"GET": Endpoint(follow_changes, query=schemas.FOLLOW)}}
