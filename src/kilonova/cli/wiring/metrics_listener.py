# SPDX-License-Identifier: Apache-2.0
"""Listener that serves the metrics on a separate port, to clients without a token."""

from collections.abc import Callable, Iterable
from typing import Any

from kilonova.config.prometheus import PrometheusSettings
from kilonova.metrics import Metrics
from kilonova.server.limits import KIB, Limits
from kilonova.server.listening import listen
from kilonova.server.server import Server

_LIMITS = Limits(head=16 * KIB, body=0, received=64 * KIB, connections=64, idle_s=120.0)


def serve_metrics(settings: PrometheusSettings, metrics: Metrics) -> Server | None:
    """Serve ``GET /metrics`` on the configured port, or return None if none is set. Raises: Unavailable."""
    if not settings.metrics_port:
        return None
    listener = listen(settings.metrics_host, settings.metrics_port, "[prometheus] metrics_host and metrics_port")
    server = Server(application_of(metrics), listener, _LIMITS, threads=1)
    server.start()
    return server


def application_of(metrics: Metrics) -> Callable[..., Iterable[bytes]]:
    """Return the WSGI application that serves only ``GET /metrics``."""

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] != "/metrics":
            status, body, media_type = "404 Not Found", b"There is only /metrics.\n", "text/plain"
        elif environ["REQUEST_METHOD"] not in {"GET", "HEAD"}:
            status, body, media_type = "405 Method Not Allowed", b"There is only GET.\n", "text/plain"
        else:
            status = "200 OK"
            body, media_type = metrics.text(environ.get("HTTP_ACCEPT"))
        start_response(status, [("Content-Type", media_type), ("Content-Length", str(len(body)))])
        return [body]

    return application
