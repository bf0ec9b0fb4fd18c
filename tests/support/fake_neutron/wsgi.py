# SPDX-License-Identifier: Apache-2.0
"""The fake Neutron by HTTP, with Neutron's error bodies: for processes of their own, and for the client itself."""

import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs

from kilonova.errors import (
    ConcurrentUpdate,
    Conflict,
    Forbidden,
    InvalidRequest,
    KilonovaError,
    NotFound,
    OverQuota,
)
from support.fake_neutron.client import FakeNeutron
from support.fake_neutron.store import SINGULAR

_STATUSES: tuple[tuple[type[KilonovaError], int], ...] = (
    (OverQuota, 409),
    (Forbidden, 403),
    (ConcurrentUpdate, 412),
    (Conflict, 409),
    (NotFound, 404),
    (InvalidRequest, 400),
)
_MADE, _EMPTY, _UNKNOWN = 201, 204, 503


class NeutronOverHttp:
    """A WSGI application. ``service_token``: the token of the service user, who acts without a token in the fake.

    ``page``: number of resources in one page of a list; 0: all.
    """

    def __init__(self, fake: FakeNeutron, *, service_token: str = "service", page: int = 0) -> None:
        self.fake = fake
        self.page = page
        self._service_token = service_token

    def __call__(self, environ: Mapping[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        status, body = self._answer(environ)
        headers = [("Content-Type", "application/json"), ("X-Openstack-Request-Id", "req-fake")]
        start_response(f"{status} Whatever", headers)
        return [] if status == _EMPTY else [json.dumps(body).encode()]

    def _answer(self, environ: Mapping[str, Any]) -> tuple[int, Any]:
        token = environ.get("HTTP_X_AUTH_TOKEN")
        token = None if token == self._service_token else token or "no token"
        match = environ.get("HTTP_IF_MATCH", "").partition("=")[2]
        content = environ["wsgi.input"].read()
        body = json.loads(content) if content else {}
        _, version, kind, *rest = environ["PATH_INFO"].split("/")
        assert version == "v2.0"
        try:
            return self._carry_out(environ, kind, rest, body, token, int(match) if match else None)
        except KilonovaError as error:
            status = next((each for kind_, each in _STATUSES if isinstance(error, kind_)), _UNKNOWN)
            fault = {"type": error.fields.get("type", type(error).__name__), "message": error.message, "detail": ""}
            return status, {"NeutronError": fault}

    def _carry_out(
        self,
        environ: Mapping[str, Any],
        kind: str,
        rest: list[str],
        body: dict[str, Any],
        token: str | None,
        revision: int | None,
    ) -> tuple[int, Any]:
        fake, singular = self.fake, SINGULAR.get(kind)
        match environ["REQUEST_METHOD"], *rest:
            case ("GET",):
                return 200, self._list(kind, environ["QUERY_STRING"], token)
            case "GET", resource_id if singular:
                return 200, {singular: fake.show(kind, resource_id, token=token)}
            case ("POST",) if singular and singular in body:
                return _MADE, {singular: fake.create(kind, body[singular], token=token)}
            case "PUT", resource_id if singular:
                values = body[singular]
                return 200, {singular: fake.update(kind, resource_id, values, token=token, revision=revision)}
            case "DELETE", resource_id if singular:
                fake.delete(kind, resource_id, token=token)
                return _EMPTY, None
            case method, *_:
                query = f"?{environ['QUERY_STRING']}" if environ["QUERY_STRING"] else ""
                found = fake.call(method, "/" + "/".join([kind, *rest]) + query, body or None, token=token)
                made = method == "POST" and not rest  # several resources at once
                return (_MADE if made else 200, found) if found else (_EMPTY, None)
        raise AssertionError

    def _list(self, kind: str, query: str, token: str | None) -> dict[str, Any]:
        conditions: dict[str, Any] = dict(parse_qs(query, keep_blank_values=True))
        if "limit" in conditions:
            return dict(self.fake.call("GET", f"/{kind}?{query}", token=token))
        marker = conditions.pop("marker", [""])[0]
        found = list(self.fake.list(kind, token=token, **conditions))
        name = kind.replace("-", "_")
        if not self.page:
            return {name: found}
        first = next((number + 1 for number, each in enumerate(found) if each["id"] == marker), 0)
        shown, left = found[first : first + self.page], found[first + self.page :]
        link = (
            f"http://behind-a-proxy/v2.0/{kind}?{query.partition('&marker=')[0]}&marker={shown[-1]['id']}"
            if left
            else ""
        )
        return {name: shown, **({f"{name}_links": [{"rel": "next", "href": link}]} if left else {})}
