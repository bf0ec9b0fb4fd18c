# SPDX-License-Identifier: Apache-2.0
"""Authentication in front of the API: Keystone through keystonemiddleware, or none for tests.

Both leave who the caller is in the identity headers of the WSGI environment; what came in under these names is removed.
"""

import os
from collections.abc import Callable, Iterable
from typing import Any

from kilonova.api.application import WsgiApp

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


def keystone(conf: Any) -> Callable[[WsgiApp], WsgiApp]:
    """Return what puts Keystone's token validation in front of an application."""
    from keystonemiddleware import auth_token  # noqa: PLC0415 - slow to import, not needed by noauth2

    def protect(app: WsgiApp) -> WsgiApp:
        options = {"oslo_config_config": conf, "delay_auth_decision": True, "include_service_catalog": False}
        protocol: WsgiApp = auth_token.AuthProtocol(app, options)
        return protocol

    return protect


def with_cors(app: WsgiApp, conf: Any) -> WsgiApp:
    """Answer cross-origin requests as ``[cors]`` says."""
    from oslo_middleware import cors  # noqa: PLC0415 - registers options when imported

    wrapped: WsgiApp = cors.CORS(app, conf)
    return wrapped if conf.cors.allowed_origin else app
