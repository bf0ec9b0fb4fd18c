# SPDX-License-Identifier: Apache-2.0
"""Serve a WSGI application with threads until SIGTERM or SIGINT."""

import signal
import sys
import warnings
from collections.abc import Callable
from typing import Any

from cheroot import wsgi
from cheroot.server import HeaderReader, HTTPRequest

Application = Callable[..., Any]

warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")  # imported by oslo libraries, never used here


class _PlainHeaders(HeaderReader):  # type: ignore[misc,unused-ignore]
    """Drop headers with an underscore in their name: X_Auth_Token would stand in for X-Auth-Token."""

    def _allow_header(self, key_name: bytes) -> bool:
        return b"_" not in key_name


def serve(application: Application, host: str, port: int, threads: int = 10) -> None:
    """Listen and answer. Returns after a signal, with requests finished."""
    HTTPRequest.header_reader = _PlainHeaders()
    server = wsgi.Server(
        (host, port),
        application,
        numthreads=threads,
        request_queue_size=128,
        shutdown_timeout=2,
    )

    def stop(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.exit(0)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    try:
        server.start()
    except SystemExit:
        pass
    finally:
        server.stop()
