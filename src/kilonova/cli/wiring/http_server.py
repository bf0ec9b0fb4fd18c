# SPDX-License-Identifier: Apache-2.0
"""Builds the HTTP server of `kilonova api` from its settings."""

import socket
import ssl
from collections.abc import Callable, Iterable
from typing import Any

from kilonova.api.agents.application import is_image_data
from kilonova.api.metadata.application import largest_from_guest
from kilonova.config.settings import Settings
from kilonova.errors import ConfigurationError
from kilonova.server.limits import Limits
from kilonova.server.listening import listen_together, tls_context
from kilonova.server.server import Server


def open_port(settings: Settings) -> tuple[tuple[socket.socket, ...], ssl.SSLContext | None]:
    """Listen on the configured address with a socket for each worker, and load the TLS certificate.

    Raises: ConfigurationError, Unavailable.
    """
    api = settings.api
    if api.key_file and not api.cert_file:
        raise ConfigurationError("[api] key_file is set without cert_file: set both.")
    tls = tls_context(api.cert_file, api.key_file, "[api] cert_file and key_file") if api.cert_file else None
    return listen_together(*api.bind, "[api] bind", api.workers), tls


def http_server(
    settings: Settings, application: Callable[..., Iterable[bytes]], listener: socket.socket, tls: Any
) -> Server:
    return Server(application, listener, limits_of(settings), settings.api.threads, tls)


def limits_of(settings: Settings) -> Limits:
    """Return the limits of the HTTP server, for each client and for all clients together."""
    api, bodies = settings.api, settings.bodies
    return Limits(
        bodies=(("/placement", bodies.placement), ("/operator", bodies.operator), ("/compute", bodies.compute)),
        body=bodies.compute,
        connections=api.max_connections,
        head_s=api.header_timeout_s,
        body_s=api.body_timeout_s,
        idle_s=api.idle_timeout_s,
        token_needed=True,
        streams=is_image_data,
        tokenless=largest_from_guest,
        max_streams=settings.images.max_transfers,
        # no route has this path: the reply is 404 for a valid token, and 401 for an invalid token
        probe_path="/operator/-",
    )
