# SPDX-License-Identifier: Apache-2.0
"""Build the WSGI application: one falcon app per API family, mounted under /compute, /placement and /operator.

Every request passes, in this order: authentication, microversion, route and method, scope of the token, body, content
type, schemas, handler, faults. A :class:`Family` holds all differences between the APIs.
"""

import contextlib
import ipaddress
import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from datetime import UTC, datetime
from functools import cache
from typing import Any, Protocol

import falcon
import orjson

from kilonova import deadline
from kilonova.api import faults, large_bodies
from kilonova.api.backend import Backend
from kilonova.api.health import PATH
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.microversion import Version
from kilonova.api.policy import PROJECT, Credentials
from kilonova.api.query_string import read_query_string
from kilonova.api.read_only import require_writable
from kilonova.api.request_body import read_body
from kilonova.deadline import NEVER, Deadline, nobody_left
from kilonova.errors import ClientGone, DeadlineExceeded, Forbidden, InvalidRequest, KilonovaError, NotFound
from kilonova.identifiers import new_uuid
from kilonova.logs.request_context import RequestContext, working_for
from kilonova.records import dataclass
from kilonova.wsgi_keys import CLIENT_GONE, HAND_OVER

LOG = logging.getLogger(__name__)

WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
#: Errors with these statuses are logged in one line without a traceback, because their causes are not bugs: operators
#: can remove the causes, and clients can retry.
_TOLD_IN_ONE_LINE = frozenset({503, 507})
#: Status of an operation that the hypervisor does not support. Logged at level INFO.
_CANNOT = 501
#: Format of a global request id, which a client sends to several services as ``X-OpenStack-Request-ID``.
_GLOBAL_REQUEST_ID = re.compile(r"req-[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_READING = frozenset({"GET", "HEAD"})
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
#: WSGI environment key of the :class:`Backend` that serves the request.
_BACKEND = "kilonova.backend"


class Family(Protocol):
    """The behaviour that differs between the compute, placement and operator APIs. A family has no state."""

    name: str
    routes: Routes

    def version(self, headers: Mapping[str, str], path: str) -> Version:
        """Return the microversion of a request to ``path``. Raises: HttpError 406, InvalidRequest."""

    def version_headers(self, version: Version | None) -> dict[str, str]:
        """Return the reply headers that name the microversion of the request."""

    def fault_body(
        self, error: BaseException, status: int, message: str, version: Version | None, request_id: str
    ) -> Any:
        """Return the JSON body of an error."""

    def fault_media_type(self, accept: str | None) -> str:
        """Return the media type of a fault: JSON, or a text type if the API has one for clients that refuse JSON."""

    def needs_token(self, path: str, method: str) -> bool:
        """Whether requests to ``path`` need a valid token. Requests for version discovery do not."""

    def decode_body(self, method: str, content_type: str | None, raw: bytes, version: Version) -> Any:
        """Decode the body. Raises: HttpError 415, InvalidRequest."""

    def method_not_allowed(self, method: str, allowed: Iterable[str], version: Version) -> KilonovaError:
        """Return the error for an HTTP method that the route does not support. ``allowed``: the route's methods."""


class _Resource:
    """Falcon resource of one path template, for all HTTP methods."""

    def __init__(self, family: Family, endpoints: Mapping[str, Endpoint]) -> None:
        self._family = family
        self._endpoints = endpoints
        for method in METHODS:
            setattr(self, f"on_{method.lower()}", self._respond)

    def _respond(self, req: falcon.Request, resp: falcon.Response, **path: str) -> None:
        exchange = Exchange(self._family, req.env[_BACKEND], req)
        exchange.answer(resp, lambda version: self._endpoint(exchange.method, version), path)

    def _endpoint(self, method: str, version: Version) -> Endpoint:
        endpoint = self._endpoints.get("GET" if method == "HEAD" and "HEAD" not in self._endpoints else method)
        if endpoint is None:
            raise self._family.method_not_allowed(method, self._endpoints, version)
        if not endpoint.exists_at(version):
            raise NotFound("The resource could not be found.")
        return endpoint


#: Names of path parameters that are credentials; logs show ``***`` instead of their values.
_SECRETS = frozenset({"console_token"})


@dataclass(slots=True)
class Exchange:
    """One HTTP request, from authentication to reply or fault. ``shown_path``: its path without secrets, for logs."""

    family: Family
    backend: Backend
    req: falcon.Request
    request_id: str = field(default_factory=lambda: f"req-{new_uuid()}")
    shown_path: str = field(init=False)

    def __post_init__(self) -> None:
        self.shown_path = self.req.path

    @property
    def method(self) -> str:
        method: str = self.req.method
        return method

    def answer(self, resp: falcon.Response, find: Callable[[Version], Endpoint], path: Mapping[str, str]) -> None:
        """Check the request, call its handler, and write the reply or the fault to ``resp``."""
        began = time.monotonic()
        for name in _SECRETS.intersection(path):
            self.shown_path = self.shown_path.replace(path[name], "***")
        with working_for(self.log_context()):
            self._answer(resp, find, path)
            if LOG.isEnabledFor(logging.DEBUG):
                took_s = time.monotonic() - began
                LOG.debug("%s %s: %s in %.3f s", self.method, self.shown_path, resp.status, took_s)

    def log_context(self) -> RequestContext:
        """Return request id, user and project for log records; user and project are "" for unauthenticated requests."""
        environ = self.req.env
        given = environ.get("HTTP_X_OPENSTACK_REQUEST_ID", "")
        return RequestContext(
            self.request_id,
            environ.get("HTTP_X_USER_ID") or "",
            environ.get("HTTP_X_PROJECT_ID") or "",
            given if _GLOBAL_REQUEST_ID.fullmatch(given) else None,
        )

    def _answer(self, resp: falcon.Response, find: Callable[[Version], Endpoint], path: Mapping[str, str]) -> None:
        version: Version | None = None
        size = 0
        try:
            environ = self.req.env
            self.authenticate(environ)
            headers = _Headers(environ)
            version = self.family.version(headers, self.req.path)
            endpoint = find(version)
            credentials = _credentials(environ)
            if self.needs_token:
                _require_project_scope(credentials)
            raw = read_body(environ, getattr(self.backend.settings.bodies, self.family.name))
            size = len(raw)
            with large_bodies.turn(size):
                context, reply = self.handle(endpoint, version, headers, path, credentials, raw)
            if self.needs_token:
                _require_authorized(context, endpoint)
        except Exception as error:  # noqa: BLE001 - the border of a request
            reply = self.fault(error, version)
        self.write(resp, reply, version)
        large_bodies.give_back_memory(size)

    def handle(
        self,
        endpoint: Endpoint,
        version: Version,
        headers: Mapping[str, str],
        path: Mapping[str, str],
        credentials: Credentials,
        raw: bytes,
    ) -> tuple[Context, Reply]:
        """Validate the request against the endpoint's schemas and call its handler."""
        environ, api = self.req.env, self.backend.settings.api
        query_string = environ.get("QUERY_STRING", "")
        query = read_query_string(query_string, api)
        body = self.family.decode_body(self.method, environ.get("CONTENT_TYPE"), raw, version)
        reads = self.method in _READING or endpoint.reads(body)
        if not reads and not endpoint.ends_read_only:
            require_writable(self.backend.writability)
        _require_storable(path, raw, body)
        _require_own_project(path, credentials)
        if endpoint.query is not None:
            endpoint.query.check({name: list(values) for name, values in query.items()}, version)
        if endpoint.body is not None:
            endpoint.body.check(body, version)
        request = Request(self.method, self.req.url, self.req.prefix, path, query, headers, version, body, query_string)
        address = _remote_address(environ, trust_proxy=api.use_forwarded_for)
        context = Context(self.backend, credentials, self.request_id, address, self.deadline() if reads else NEVER)
        context.hand_over, context.token_expires_at = environ.get(HAND_OVER), _token_end(environ)
        with deadline.running(context.deadline):
            return context, endpoint.handler(context, request)

    @property
    def needs_token(self) -> bool:
        return self.family.needs_token(self.req.path, self.method)

    def deadline(self) -> Deadline:
        """Return the deadline of a request that only reads. A write has none, because it must not stop halfway.

        A read stops after ``[api] request_timeout``, or as soon as the client has disconnected.
        """
        timeout_s = self.backend.settings.api.request_timeout_s
        ends_at = None if timeout_s is None else time.monotonic() + timeout_s
        return Deadline(ends_at, self.req.env.get(CLIENT_GONE, nobody_left))

    def authenticate(self, environ: Mapping[str, Any]) -> None:
        is_known = environ.get("HTTP_X_IDENTITY_STATUS") == "Confirmed" and environ.get("HTTP_X_USER_ID")
        if not is_known and self.needs_token:
            raise faults.HttpError(
                401,
                "The request you have made requires authentication.",
                WWW_Authenticate=environ.get("kilonova.www_authenticate", "Keystone"),
            )

    def fault(self, error: Exception, version: Version | None) -> Reply:
        status = faults.status_of(error)
        if isinstance(error, ClientGone):
            LOG.info("%s %s was cancelled: the client has disconnected", self.method, self.shown_path)
        elif isinstance(error, DeadlineExceeded):
            LOG.warning("%s %s was cancelled: it exceeded the request timeout", self.method, self.shown_path)
        elif isinstance(error, KilonovaError) and (status in _TOLD_IN_ONE_LINE or _is_foreseen(error, status)):
            LOG.warning("%s %s: %d %s", self.method, self.shown_path, status, error.message)
        elif isinstance(error, KilonovaError) and status == _CANNOT:
            LOG.info("%s %s: %d %s", self.method, self.shown_path, status, error.message)
        elif status >= 500:
            LOG.error("%s %s failed", self.method, self.shown_path, exc_info=error)
        headers = dict(error.headers) if isinstance(error, faults.HttpError) else {}
        message = faults.message_of(error)
        kind = self.family.fault_media_type(self.req.env.get("HTTP_ACCEPT"))
        if kind != "application/json":
            return Reply(status, faults.as_text(kind, status, message), {**headers, "Content-Type": kind})
        body = self.family.fault_body(error, status, message, version, self.request_id)
        return Reply(status, body, headers)

    def write(self, resp: falcon.Response, reply: Reply, version: Version | None) -> None:
        resp.status = reply.status
        for name, value in {
            **self.family.version_headers(version),
            "X-OpenStack-Request-ID": self.request_id,
            "X-Compute-Request-Id": self.request_id,
            **reply.headers,
        }.items():
            resp.set_header(name, value)
        if isinstance(reply.body, bytes):
            resp.data = reply.body
        elif reply.body is not None:
            resp.data = orjson.dumps(reply.body)
        if reply.body is None and reply.status != 200:
            resp.content_type = None
        elif "Content-Type" not in reply.headers:
            resp.content_type = "application/json"


class _Headers(Mapping[str, str]):
    """Request headers as a mapping with case-insensitive names."""

    def __init__(self, environ: Mapping[str, Any]) -> None:
        self._environ = environ

    def __getitem__(self, name: str) -> str:
        key = name.upper().replace("-", "_")
        value: str = self._environ[key if key in {"CONTENT_TYPE", "CONTENT_LENGTH"} else f"HTTP_{key}"]
        return value

    def __iter__(self) -> Any:
        return (key[5:].replace("_", "-").title() for key in self._environ if key.startswith("HTTP_"))

    def __len__(self) -> int:
        return sum(key.startswith("HTTP_") for key in self._environ)


def _require_storable(path: Mapping[str, str], raw: bytes, body: Any) -> None:
    """Raise an error for empty path parameters, and for null characters in path or body.

    Databases cannot store null characters. Raises: NotFound for the path, InvalidRequest for the body.
    """
    if any(not value or "\0" in value for value in path.values()):
        raise NotFound("The resource could not be found.")
    if b"\\u0000" in raw and _holds_null(body):
        raise InvalidRequest("Invalid input for field/attribute body: a string contains a null character.")


def _holds_null(value: Any) -> bool:
    waiting = [value]
    for item in waiting:  # a loop, not recursion: a body may be nested deeper than Python's recursion limit
        if isinstance(item, str):
            if "\0" in item:
                return True
        elif isinstance(item, dict):
            waiting += [*item, *item.values()]
        elif isinstance(item, list):
            waiting += item
    return False


def _is_foreseen(error: KilonovaError, status: int) -> bool:
    """Whether a handler has chosen the status 500 for an error."""
    return status == 500 and isinstance(error, faults.HttpError)


def _require_project_scope(credentials: Credentials) -> None:
    """Raise Forbidden unless the token is scoped to a project. The roles of the token do not matter."""
    if credentials.scope != PROJECT:
        kind = "unscoped" if credentials.scope is None else f"{credentials.scope}-scoped"
        raise Forbidden(f"This request needs a project-scoped token; this token is {kind}.")


def _require_authorized(context: Context, endpoint: Endpoint) -> None:
    """Raise RuntimeError if the handler replied without a policy check, which is a bug of the handler."""
    if not context.is_authorized:
        raise RuntimeError(f"{endpoint.handler.__qualname__} replied without a policy check")


def _require_own_project(path: Mapping[str, str], credentials: Credentials) -> None:
    """Raise InvalidRequest if the path names another project than the token.

    The compute API has paths with and without a project id.
    """
    project_id = path.get("project_id", credentials.project_id)
    if project_id != credentials.project_id:
        raise InvalidRequest(
            f"Malformed request URL: URL's project_id '{project_id}' doesn't match that of the token,"
            f" '{credentials.project_id}'."
        )


def _remote_address(environ: Mapping[str, Any], *, trust_proxy: bool) -> str | None:
    """Return the address of the TCP peer, or, if ``trust_proxy``, the first address in ``X-Forwarded-For``."""
    named = environ.get("HTTP_X_FORWARDED_FOR") if trust_proxy else None
    if named:
        with contextlib.suppress(ValueError):
            return str(ipaddress.ip_address(named.partition(",")[0].strip()))
    peer: str | None = environ.get("REMOTE_ADDR")
    return peer


def _token_end(environ: Mapping[str, Any]) -> datetime | None:
    """Return the end of the validity of the token, as keystonemiddleware has read it; None if there is none."""
    text = (environ.get("keystone.token_info") or {}).get("token", {}).get("expires_at")
    if not text:
        return None
    return datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None)


def _credentials(environ: Mapping[str, Any]) -> Credentials:
    roles = environ.get("HTTP_X_ROLES") or ""
    return Credentials(
        user_id=environ.get("HTTP_X_USER_ID") or "",
        project_id=environ.get("HTTP_X_PROJECT_ID") or "",
        roles=tuple(role.strip() for role in roles.split(",") if role.strip()),
        domain_id=environ.get("HTTP_X_DOMAIN_ID") or None,
        system_scope=environ.get("HTTP_OPENSTACK_SYSTEM_SCOPE") or None,
        token=environ.get("HTTP_X_AUTH_TOKEN"),
        user_domain_id=environ.get("HTTP_X_USER_DOMAIN_ID"),
        project_domain_id=environ.get("HTTP_X_PROJECT_DOMAIN_ID"),
    )


def family_app(kind: type[Family], backend: Backend) -> WsgiApp:
    """Return the WSGI application of one API family, without authentication middleware."""
    routed = _routed_app(kind)

    def with_backend(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        environ[_BACKEND] = backend
        return routed(environ, start_response)

    return with_backend


@cache
def _routed_app(kind: type[Family]) -> WsgiApp:
    """Return the falcon application with all routes of a family. Each request names its backend in ``_BACKEND``.

    All backends of a process share the application: building it, and compiling its routes at the first request, takes
    longer than most tests.
    """
    family = kind()
    app = falcon.App()
    app.req_options.strip_url_path_trailing_slash = False
    app.resp_options.default_media_type = None  # type: ignore[assignment]  # an empty reply has no content type
    for template, endpoints in family.routes.items():
        app.add_route(template, _Resource(family, endpoints))

    def not_found(req: falcon.Request, resp: falcon.Response, **_: str) -> None:
        def find(_version: Version) -> Endpoint:
            raise NotFound("The resource could not be found.")

        Exchange(family, req.env[_BACKEND], req).answer(resp, find, {})

    app.add_sink(not_found)
    wsgi_app: WsgiApp = app
    return wsgi_app


def mount(apps: Mapping[str, WsgiApp]) -> WsgiApp:
    """Return an application that passes each request to the application of its path prefix. ``apps``: prefix → app."""
    prefixes = sorted(apps, key=len, reverse=True)

    def dispatch(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        for prefix in prefixes:
            if path == prefix or path.startswith(prefix + "/"):
                environ["SCRIPT_NAME"] = environ.get("SCRIPT_NAME", "") + prefix
                environ["PATH_INFO"] = path[len(prefix) :]
                return apps[prefix](environ, start_response)
        roots = [prefix for prefix in sorted(apps) if not prefix.endswith(PATH)]
        body = orjson.dumps({"services": {prefix.strip("/"): prefix for prefix in roots}})
        status = "200 OK" if path in {"", "/"} else "404 Not Found"
        start_response(status, [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
        return [body]

    return dispatch
