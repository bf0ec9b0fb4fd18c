# SPDX-License-Identifier: Apache-2.0
"""The request that a thread handles: its ids, for log lines and for requests to other services."""

from collections.abc import Mapping
from contextvars import ContextVar

from kilonova.records import dataclass

HEADER = "X-OpenStack-Request-ID"


@dataclass(frozen=True, slots=True)
class RequestContext:
    """Ids of a request.

    ``global_request_id``: the id that the client uses for this request in all services; None if the client sent none.
    """

    request_id: str
    user_id: str = ""
    project_id: str = ""
    global_request_id: str | None = None

    def __str__(self) -> str:
        ids = [self.global_request_id, self.request_id, self.user_id or "-", self.project_id or "-"]
        return " ".join(each for each in ids if each)


_current: ContextVar[RequestContext | None] = ContextVar("kilonova_request", default=None)


class working_for:  # noqa: N801 - used by every request, and a generator as context manager takes three times as long
    """Context manager that sets the request that this thread handles."""

    __slots__ = ("_request", "_token")

    def __init__(self, request: RequestContext) -> None:
        self._request = request

    def __enter__(self) -> None:
        self._token = _current.set(self._request)

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)


def current() -> RequestContext | None:
    return _current.get()


def outgoing_headers() -> Mapping[str, str]:
    """Return the request id header for requests to other services; empty outside of a request."""
    request = _current.get()
    return {} if request is None else {HEADER: request.global_request_id or request.request_id}
