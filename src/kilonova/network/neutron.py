# SPDX-License-Identifier: Apache-2.0
"""The network client by HTTP: Neutron's API v2.0 at the endpoint of the service catalogue."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import orjson
from keystoneauth1 import exceptions
from keystoneauth1.adapter import Adapter

from kilonova import deadline
from kilonova.errors import NotFound, Unavailable
from kilonova.logs import outgoing
from kilonova.logs.request_context import outgoing_headers
from kilonova.network.client import Resource
from kilonova.network.neutron_errors import error_of
from kilonova.network.queries import queries, query_of_link
from kilonova.network.silence import Silence
from kilonova.records import dataclass

LOG = logging.getLogger(__name__)
#: Statuses if the service is overloaded, or a proxy does not reach it. GET requests are then repeated.
_AWAY = frozenset({502, 503, 504})
_UNAUTHORIZED = 401
#: Seconds without an answer after which the service may count as silent.
_SILENCE_S = 5.0
#: Pause in seconds before the first repetition; the pause doubles with each repetition.
_PAUSE_S = 0.1


@dataclass(frozen=True, slots=True)
class _Call:
    """A request. ``path``: below ``/v2.0``, with its query. ``revision``: as in ``NetworkClient.update``."""

    method: str
    path: str
    body: Resource | None = None
    token: str | None = None
    revision: int | None = None


class Neutron:
    """A ``NetworkClient`` for a Neutron. Thread-safe.

    ``adapter``: keystoneauth adapter of Kilonova's own user, with the time limit of a call in its session.
    ``retries``: number of repetitions of a GET request that gets no answer, within the time limit. While the service is
    silent, only one request at a time is sent, and all others fail at once.
    """

    def __init__(self, adapter: Adapter, *, retries: int, pause: Callable[[float], None] = time.sleep) -> None:
        self._adapter = adapter
        self._session = adapter.session
        self._retries = retries
        self._pause = pause
        self._silence = Silence(min(_SILENCE_S, 0.9 * self._session.timeout))

    def list(self, kind: str, *, token: str | None = None, **filters: object) -> Sequence[Resource]:
        found: list[Resource] = []
        for query in queries(filters):
            following: str | None = query
            while following is not None:
                answer = self._json(_Call("GET", f"/{kind}{following}", token=token))
                page = answer.get(_plural(kind))
                if not isinstance(page, list):
                    raise Unavailable(f"The network service answered without {_plural(kind)}.")
                found += page
                following = _next_page(answer, kind)
        return found

    def show(self, kind: str, resource_id: str, *, token: str | None = None) -> Resource:
        return self._resource(kind, _Call("GET", _path(kind, resource_id), token=token))

    def create(self, kind: str, values: Resource, *, token: str | None = None) -> Resource:
        return self._resource(kind, _Call("POST", f"/{kind}", {_singular(kind): values}, token))

    def update(
        self, kind: str, resource_id: str, values: Resource, *, token: str | None = None, revision: int | None = None
    ) -> Resource:
        body = {_singular(kind): values}
        return self._resource(kind, _Call("PUT", _path(kind, resource_id), body, token, revision))

    def delete(self, kind: str, resource_id: str, *, token: str | None = None) -> None:
        self._json(_Call("DELETE", _path(kind, resource_id), token=token))

    def call(self, method: str, path: str, body: Resource | None = None, *, token: str | None = None) -> Resource:
        return self._json(_Call(method, path, body, token))

    def _resource(self, kind: str, call: _Call) -> Resource:
        found = self._json(call).get(_singular(kind))
        if not isinstance(found, dict):
            raise Unavailable(f"The network service answered without the {_singular(kind)}.")
        return found

    def _json(self, call: _Call) -> Mapping[str, Any]:
        """Carry out a request and return the body of its response. Raises: the exception for an error response."""
        status, body = self._answer(call)
        if status >= 300:
            raise error_of(status, body)
        if not isinstance(body, dict):
            raise Unavailable("The network service answered without JSON.", status=status)
        return body

    def _answer(self, call: _Call) -> tuple[int, Any]:
        """Return the status and body of the response, even if the status is an error.

        A GET request is repeated if there is no response, or one that is not Neutron's own, such as a proxy's page.
        """
        ends_at, pause = self._ends_at(), _PAUSE_S
        for left in reversed(range(1 + (self._retries if call.method == "GET" else 0))):
            is_last = not left or time.monotonic() + pause >= ends_at
            try:
                with self._silence.request():
                    answer = self._with_fresh_token(call, ends_at)
            except exceptions.ConnectionError as error:
                if is_last:
                    raise Unavailable("The network service cannot be reached.") from error
            else:
                status, body = answer.status_code, _body(call, answer.content)
                is_away = status in _AWAY or (status < 300 and not isinstance(body, dict))
                if is_last or not is_away:
                    return status, body
            self._pause(pause)
            pause *= 2
        raise AssertionError("the last attempt returns or raises")

    def _with_fresh_token(self, call: _Call, ends_at: float) -> Any:
        """Send a request for a user. If it is refused because Kilonova's own token has expired, send it once more."""
        answer = self._send(call, ends_at)
        if call.token is not None and answer.status_code == _UNAUTHORIZED and self._session.invalidate():
            return self._send(call, ends_at)
        return answer

    def _send(self, call: _Call, ends_at: float) -> Any:
        deadline.check()
        headers = {"Accept": "application/json", **outgoing_headers()}
        if call.revision is not None:
            headers["If-Match"] = f"revision_number={call.revision}"
        data = None
        if call.body is not None:
            data = orjson.dumps(call.body)
            headers["Content-Type"] = "application/json"
        began = time.monotonic()
        try:
            if call.token is not None:
                own = self._session.get_auth_headers() or {}
                headers |= {"X-Auth-Token": call.token, "X-Service-Token": own.get("X-Auth-Token", "")}
            answer = self._session.request(
                f"{self._base()}{call.path}",
                call.method,
                data=data,
                headers=headers,
                authenticated=call.token is None,
                timeout=max(ends_at - time.monotonic(), 0.001),
                raise_exc=False,
                redirect=False,
                log=False,
            )
        except exceptions.ConnectTimeout:
            self._silence.timed_out(began)
            raise
        except exceptions.ConnectionError:
            raise
        except (exceptions.ClientException, exceptions.AuthPluginException) as error:
            LOG.warning("No request to the network service is possible: %s", error)
            raise Unavailable(
                "The network service cannot be reached with the credentials of Kilonova's user."
            ) from error
        self._silence.answered()
        outgoing.tell(LOG, "the network service", call.method, call.path, answer.status_code, answer.headers)
        return answer

    def _base(self) -> str:
        """Return the URL of the API v2.0."""
        endpoint = self._adapter.get_endpoint(skip_discovery=True)
        if endpoint is None:
            raise Unavailable("The service catalogue has no endpoint of the network service.")
        url = str(endpoint).rstrip("/")
        return url if url.endswith("/v2.0") else f"{url}/v2.0"

    def _ends_at(self) -> float:
        """Return when a call must end: at its time limit, or earlier, at the deadline of the user's request."""
        ends_at: float = time.monotonic() + self._session.timeout
        current = deadline.current()
        return ends_at if current is None or current.ends_at is None else min(ends_at, current.ends_at)


def _body(call: _Call, content: bytes) -> Any:
    """Return the JSON of a response; None if it has none. Only a request that reads needs content in its response."""
    if not content:
        return None if call.method == "GET" else {}
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        return None


def _path(kind: str, resource_id: str) -> str:
    if resource_id in {"", ".", ".."}:  # no valid ids: HTTP clients remove such parts from a path
        raise NotFound(f"The resource {resource_id} could not be found.")
    return f"/{kind}/{quote(resource_id, safe='')}"


def _plural(kind: str) -> str:
    return kind.replace("-", "_")


def _singular(kind: str) -> str:
    name = _plural(kind)
    return f"{name[:-3]}y" if name.endswith("ies") else name.removesuffix("s")


def _next_page(answer: Mapping[str, Any], kind: str) -> str | None:
    """Return the query of the next page, or None after the last page."""
    for link in answer.get(f"{_plural(kind)}_links") or ():
        if link.get("rel") == "next":
            return query_of_link(link["href"])
    return None
