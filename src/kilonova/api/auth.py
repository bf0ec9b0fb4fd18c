# SPDX-License-Identifier: Apache-2.0
"""Authentication in front of the API: Keystone through keystonemiddleware, or none for tests.

Both leave who the caller is in the identity headers of the WSGI environment; what came in under these names is removed.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from kilonova.api.application import WsgiApp

_MEMORY_KEY = "kilonova.token_memory"
_TOKENS_KEPT = 20_000
_IDENTITY_HEADERS = (
    "HTTP_X_IDENTITY_STATUS",
    "HTTP_X_USER_ID",
    "HTTP_X_USER_DOMAIN_ID",
    "HTTP_X_PROJECT_DOMAIN_ID",
    "HTTP_X_TENANT_ID",
)


def strip_environment_headers() -> None:
    """Remove process environment variables that the server would pass on as request headers."""
    for name in [name for name in os.environ if name.startswith("HTTP_")]:
        del os.environ[name]


def noauth2(app: WsgiApp, *, plain_roles: tuple[str, ...]) -> WsgiApp:
    """Trust the token: ``admin`` is an administrator, ``user:project`` has ``plain_roles``.

    ``X-Roles`` and ``X-Project-Id`` are honoured, as in Nova's and Placement's own test authentication.
    """

    def middleware(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        for name in _IDENTITY_HEADERS:
            environ.pop(name, None)
        token = environ.get("HTTP_X_AUTH_TOKEN")
        if token:
            user, _, project = token.partition(":")
            roles = environ.get("HTTP_X_ROLES") or ("admin" if user == "admin" else ",".join(plain_roles))
            environ["HTTP_X_ROLES"] = roles
            environ["HTTP_X_USER_ID"] = user
            environ["HTTP_X_PROJECT_ID"] = environ.get("HTTP_X_PROJECT_ID") or project or user
            environ["HTTP_X_IDENTITY_STATUS"] = "Confirmed"
        return app(environ, start_response)

    return middleware


class TokenMemory:
    """What keystonemiddleware remembers of tokens, shared by all threads and bounded.

    Its own memory is one dict for each thread that is searched through at every store.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: dict[str, tuple[float, Any]] = {}

    def get(self, key: str) -> Any:
        """Return what is remembered, None when it is too old or unknown."""
        entry = self._entries.get(key)
        return None if entry is None or entry[0] < self._clock() else entry[1]

    def set(self, key: str, value: Any, time: float = 0) -> None:
        """Remember ``value`` for ``time`` seconds. The oldest entries make room when there are too many."""
        with self._lock:
            self._entries.pop(key, None)
            while len(self._entries) >= _TOKENS_KEPT:
                del self._entries[next(iter(self._entries))]
            self._entries[key] = (self._clock() + time, value)


def keystone(conf: Any) -> Callable[[WsgiApp], WsgiApp]:
    """Return what puts Keystone's token validation in front of an application."""
    from keystonemiddleware import auth_token  # noqa: PLC0415 - slow to import, not needed by noauth2

    memory = TokenMemory()

    def protect(app: WsgiApp) -> WsgiApp:
        options = {
            "oslo_config_config": conf,
            "delay_auth_decision": True,
            "include_service_catalog": False,
            "cache": _MEMORY_KEY,
        }
        protocol: WsgiApp = auth_token.AuthProtocol(app, options)

        def middleware(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
            environ[_MEMORY_KEY] = memory
            return protocol(environ, start_response)

        return middleware

    return protect


def with_cors(app: WsgiApp, conf: Any) -> WsgiApp:
    """Answer cross-origin requests as ``[cors]`` says; without such a section there are none."""
    if not any(section.partition(".")[0] == "cors" for section in conf.list_all_sections()):
        return app
    from oslo_middleware import cors  # noqa: PLC0415 - registers options when imported

    wrapped: WsgiApp = cors.CORS(app, conf)
    return wrapped if conf.cors.allowed_origin else app
