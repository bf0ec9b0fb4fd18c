# SPDX-License-Identifier: Apache-2.0
"""Connections below a keystoneauth session, with half of the processor time of a request through ``requests``.

::

    keystoneauth session: tokens, renewals, TLS options ──▶ DirectConnections ──▶ connection pool of urllib3
                                                                  └─ unusual requests ──▶ requests.Session

A ``requests.Session`` prepares each request and its cookies, and selects proxies and a pool anew. Here a request with
the arguments that keystoneauth passes goes straight to the pool that ``requests`` has made for its origin and its TLS
options, with the same exceptions. All other requests go through ``requests``.
"""

from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlsplit

import requests
from keystoneauth1.session import TCPKeepAliveAdapter
from urllib3 import BaseHTTPResponse, HTTPConnectionPool, Retry, Timeout
from urllib3 import exceptions as errors

#: Arguments of a request that this class handles itself.
_KNOWN = frozenset({"data", "headers", "timeout", "verify", "cert", "allow_redirects"})
_NO_RETRIES = Retry(0, read=False, redirect=False)
#: Origin, and TLS options.
_Key = tuple[str, str, object, object]


class DirectConnections(requests.Session):
    """A session that keeps no cookies. Thread-safe. ``idle``: maximum number of idle connections to one origin."""

    def __init__(self, idle: int) -> None:
        super().__init__()
        for scheme in ("http://", "https://"):
            self.mount(scheme, TCPKeepAliveAdapter(pool_maxsize=idle))
        #: None for an origin that is reached through a proxy.
        self._pools: dict[_Key, HTTPConnectionPool | None] = {}

    def request(self, method: str | bytes, url: str | bytes, *args: Any, **kwargs: Any) -> requests.Response:
        if isinstance(url, str) and isinstance(method, str) and not args and _is_plain(kwargs):
            parts = urlsplit(url)
            pool = self._pool(parts.scheme, parts.netloc, kwargs.get("verify", True), kwargs.get("cert"))
            if pool is not None:
                path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
                answer = _answer(pool, method, path, kwargs)
                return _response(method, url, answer)
        return super().request(method, url, *args, **kwargs)

    def _pool(self, scheme: str, netloc: str, verify: bool | str, cert: Any) -> HTTPConnectionPool | None:
        """Return the pool that ``requests`` uses for an origin with these TLS options; None if it uses a proxy.

        The environment variables for proxies and certificates are read at the first request only.
        """
        key = (scheme, netloc, verify, tuple(cert) if isinstance(cert, list) else cert)
        if key not in self._pools:
            self._pools[key] = self._new_pool(f"{scheme}://{netloc}/", verify, cert)
        return self._pools[key]

    def _new_pool(self, origin: str, verify: bool | str, cert: Any) -> HTTPConnectionPool | None:
        found = self.merge_environment_settings(origin, {}, None, verify, cert)
        if requests.utils.select_proxy(origin, found["proxies"]) is not None:
            return None
        adapter, request = self.get_adapter(origin), requests.Request("GET", origin).prepare()
        assert isinstance(adapter, requests.adapters.HTTPAdapter)
        pool = adapter.get_connection_with_tls_context(request, found["verify"], cert=found["cert"])
        adapter.cert_verify(pool, origin, found["verify"], found["cert"])  # type: ignore[no-untyped-call]
        return cast("HTTPConnectionPool", pool)


def _is_plain(given: Mapping[str, Any]) -> bool:
    """Tell whether a request needs nothing that only ``requests`` does: redirects, streams, other kinds of data."""
    return (
        given.keys() <= _KNOWN
        and not given.get("allow_redirects", True)
        and isinstance(given.get("data"), bytes | None)
        and isinstance(given.get("timeout"), float | int)
    )


def _answer(pool: HTTPConnectionPool, method: str, path: str, given: Mapping[str, Any]) -> BaseHTTPResponse:
    """Send a request, and return the response with its body. Raises: requests.RequestException."""
    try:
        return pool.urlopen(
            method,
            path,
            body=given.get("data"),
            headers=dict(given.get("headers") or {}),
            retries=_NO_RETRIES,
            redirect=False,
            assert_same_host=False,
            timeout=Timeout(connect=given["timeout"], read=given["timeout"]),
            preload_content=True,
        )
    except (errors.HTTPError, OSError) as error:
        raise _exception_for(error) from error


def _response(method: str, url: str, answer: BaseHTTPResponse) -> requests.Response:
    """Return a response as keystoneauth reads it: also for its log, and to follow redirects."""
    response = requests.Response()
    response.status_code, response.reason, response.url = answer.status, answer.reason or "", url
    response.headers.update(answer.headers)
    response.encoding = requests.utils.get_encoding_from_headers(response.headers)
    response.request = requests.PreparedRequest()
    response.request.method, response.request.url = method, url
    response._content = answer.data  # noqa: SLF001 - the only way to give a response its content
    return response


def _exception_for(error: Exception) -> requests.RequestException:
    """Return the exception that ``requests`` raises for an error of urllib3."""
    cause = error.reason if isinstance(error, errors.MaxRetryError) and error.reason is not None else error
    match cause:
        case errors.NewConnectionError():
            return requests.ConnectionError(error)
        case errors.ConnectTimeoutError():
            return requests.ConnectTimeout(error)
        case errors.ReadTimeoutError():
            return requests.ReadTimeout(error)
        case errors.SSLError():
            return requests.exceptions.SSLError(error)
    return requests.ConnectionError(error)
