# SPDX-License-Identifier: Apache-2.0
"""``kilonova dashboard``: serves the pages of a cloud to browsers."""

import asyncio
import logging
import signal
import socket
import ssl
from typing import TYPE_CHECKING

from kilonova.cli.cloud.settings import RequiredConfigFiles
from kilonova.errors import ConfigurationError

if TYPE_CHECKING:  # these modules are slow to import, and --help does not need them
    from pathlib import Path

    from kilonova.config.dashboard import DashboardSettings

#: Seconds in which open requests may end after SIGTERM; streams never end by themselves.
_GRACE_S = 2
_MOST_CONNECTIONS = 1_000


def dashboard(config_file: RequiredConfigFiles) -> None:
    """Serve the dashboard: pages that show a cloud to its operators and users."""
    from kilonova.cli.wiring.log import configure_log  # noqa: PLC0415 - slow to import
    from kilonova.config.dashboard import load_dashboard_settings  # noqa: PLC0415 - start-up time

    settings, log = load_dashboard_settings(config_file)
    trust, listener = _trust_of(settings), _listen(settings)
    configure_log(log)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # otherwise it logs every request
    asyncio.run(_serve(settings, trust, listener))


def _listen(settings: "DashboardSettings") -> socket.socket:
    """Return an open listening socket. Raises: ConfigurationError, Unavailable."""
    from kilonova.server.listening import listen, tls_context  # noqa: PLC0415 - start-up time

    if settings.cert_file is not None:  # uvicorn would end with a traceback
        tls_context(str(settings.cert_file), _text(settings.key_file), "[dashboard] cert_file")
    return listen(settings.host, settings.port, "the dashboard")


async def _serve(settings: "DashboardSettings", trust: ssl.SSLContext, listener: socket.socket) -> None:
    """Serve until SIGTERM or SIGINT. ``trust``: certificate authorities of the cloud's APIs."""
    import uvicorn  # noqa: PLC0415 - start-up time

    from kilonova.dashboard.application import Dashboard, DashboardOptions  # noqa: PLC0415 - start-up time
    from kilonova.dashboard.upstream.cloud_api import Cloud, new_client  # noqa: PLC0415 - start-up time

    async with new_client(verify=trust) as http:
        options = DashboardOptions(
            origin=settings.public_url,
            is_secure=settings.cert_file is not None,
            default_domain=settings.default_domain,
            session_idle_s=settings.session_idle_timeout_s,
            attempts=settings.sign_in_attempts,
        )
        application = Dashboard(Cloud(http, settings.auth_url, settings.region), options).app
        config = uvicorn.Config(
            application,
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=settings.public_url is not None,
            forwarded_allow_ips="127.0.0.1,::1",
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_graceful_shutdown=_GRACE_S,
            ssl_certfile=settings.cert_file,
            ssl_keyfile=settings.key_file,
        )
        server = uvicorn.Server(config)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        await server.serve(sockets=[listener])


def _text(path: "Path | None") -> str | None:
    return None if path is None else str(path)


def _trust_of(settings: "DashboardSettings") -> ssl.SSLContext:
    """Return the certificate authorities to trust. Raises: ConfigurationError."""
    try:
        return ssl.create_default_context(cafile=_text(settings.cafile))
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"[dashboard] cafile: {settings.cafile} cannot be read: {error}.") from error
