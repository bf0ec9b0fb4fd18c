# SPDX-License-Identifier: Apache-2.0
"""Authentication middleware of the APIs: Keystone through keystonemiddleware, or ``noauth2`` for tests.

Either middleware removes the identity headers that a client sent, and sets identity headers of the authenticated user
in the WSGI environment.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from cachetools import TLRUCache

from kilonova.api.application import WsgiApp

_MEMORY_KEY = "kilonova.token_memory"
_TOKENS_KEPT = 20_000
_OF_A_TOKEN = (
    "IDENTITY_STATUS", "USER_ID", "USER_NAME", "USER_DOMAIN_ID", "USER_DOMAIN_NAME", "PROJECT_ID", "PROJECT_NAME",
    "PROJECT_DOMAIN_ID", "PROJECT_DOMAIN_NAME", "DOMAIN_ID", "DOMAIN_NAME", "ROLES",
)  # fmt: skip
_SYSTEM_SCOPE = "HTTP_OPENSTACK_SYSTEM_SCOPE"
#: All WSGI keys, including deprecated ones, in which keystonemiddleware passes the identity of user and service.
IDENTITY_HEADERS = frozenset(
    {
        *(f"HTTP_X_{name}" for name in _OF_A_TOKEN),
        *(f"HTTP_X_SERVICE_{name}" for name in _OF_A_TOKEN),
        *(f"HTTP_X_{name}" for name in ("USER", "TENANT", "TENANT_ID", "TENANT_NAME", "ROLE")),
        "HTTP_X_IS_ADMIN_PROJECT",
        "HTTP_X_SERVICE_CATALOG",
        _SYSTEM_SCOPE,
    }
)


def strip_environment_headers() -> None:
    """Remove process environment variables that the WSGI server would pass on as request headers."""
    for name in [name for name in os.environ if name.startswith("HTTP_")]:
        del os.environ[name]


def take_identity(environ: dict[str, Any]) -> dict[str, str]:
    """Remove the identity headers that a client sent, and return them."""
    return {name: environ.pop(name) for name in environ.keys() & IDENTITY_HEADERS}


def noauth2(app: WsgiApp, *, plain_roles: tuple[str, ...]) -> WsgiApp:
    """Wrap ``app`` in an authentication for tests, which accepts every token.

    Token ``admin``: an administrator. Token ``USER:PROJECT``: a user with ``plain_roles``. Token ``USER:``: a user
    without a scope. The header ``X-Roles`` overrides the roles. One of the headers ``X-Project-Id``, ``X-Domain-Id``
    and ``OpenStack-System-Scope`` overrides the scope. The test authentication of Nova and of Placement is similar.
    """

    def middleware(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        said = take_identity(environ)
        token = environ.get("HTTP_X_AUTH_TOKEN")
        if token:
            user, colon, project = token.partition(":")
            environ["HTTP_X_USER_ID"] = user
            environ["HTTP_X_ROLES"] = said.get("HTTP_X_ROLES") or (
                "admin" if user == "admin" else ",".join(plain_roles)
            )
            if said.get(_SYSTEM_SCOPE):
                environ[_SYSTEM_SCOPE] = said[_SYSTEM_SCOPE]
            elif said.get("HTTP_X_DOMAIN_ID"):
                environ["HTTP_X_DOMAIN_ID"] = said["HTTP_X_DOMAIN_ID"]
            else:
                environ["HTTP_X_PROJECT_ID"] = said.get("HTTP_X_PROJECT_ID") or project or ("" if colon else user)
            environ["HTTP_X_IDENTITY_STATUS"] = "Confirmed"
        return app(environ, start_response)

    return middleware


class TokenMemory:
    """Token cache for keystonemiddleware: shared by all threads and bounded.

    The cache of keystonemiddleware has one dict per thread instead, and searches a whole dict at each insertion.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._entries: TLRUCache[str, tuple[Any, float]] = TLRUCache(
            _TOKENS_KEPT, ttu=lambda _, entry, now: now + entry[1], timer=clock
        )

    def get(self, key: str) -> Any:
        """Return the cached value, or None if it is absent or expired."""
        with self._lock:
            entry = self._entries.get(key)
        return None if entry is None else entry[0]

    def set(self, key: str, value: Any, time: float = 0) -> None:
        """Cache ``value`` for ``time`` seconds. A full cache evicts the least recently used entry."""
        with self._lock:
            self._entries[key] = (value, time)


def keystone(conf: Any) -> Callable[[WsgiApp], WsgiApp]:
    """Return a function that wraps an application in Keystone's token validation."""
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
            take_identity(environ)  # auth_token does not remove a client's OpenStack-System-Scope header
            environ[_MEMORY_KEY] = memory
            return protocol(environ, start_response)

        return middleware

    return protect


def with_cors(app: WsgiApp, conf: Any) -> WsgiApp:
    """Wrap an application in the CORS middleware configured by ``[cors]``; without that section return it unchanged."""
    if not any(section.partition(".")[0] == "cors" for section in conf.list_all_sections()):
        return app
    from oslo_middleware import cors  # noqa: PLC0415 - registers options when imported

    wrapped: WsgiApp = cors.CORS(app, conf)
    return wrapped if conf.cors.allowed_origin else app
