# SPDX-License-Identifier: Apache-2.0
"""Serves a WSGI application with a pool of threads until SIGTERM or SIGINT."""

import warnings
from collections.abc import Callable
from typing import Any

from kilonova.server.limits import Limits
from kilonova.server.listening import listen
from kilonova.server.server import Server
from kilonova.server.serving import serve_until_told

Application = Callable[..., Any]
_THREADS = 24

# oslo.service imports Eventlet without using it
warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")


def serve(application: Application, host: str, port: int, limits: Limits, threads: int = _THREADS) -> None:
    """Serve until SIGTERM or SIGINT; return when running requests are finished. Raises: Unavailable."""
    with listen(host, port, "The address") as listener:
        serve_until_told(Server(application, listener, limits, threads))
