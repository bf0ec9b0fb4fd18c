# SPDX-License-Identifier: Apache-2.0
"""Fail-over between several endpoints of the image service.

::

    GET, DELETE ── endpoint ── unreachable, or 502, 503, 504 ──▶ next endpoint ── … ──▶ answer of the last endpoint
    POST, PUT   ── endpoint ── unreachable, or 502, 503, 504 ──▶ failure; later requests use the next endpoint
"""

import logging
import threading
from collections.abc import Sequence
from typing import Any

from keystoneauth1 import exceptions
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session

LOG = logging.getLogger(__name__)
#: Idempotent methods, which may be retried at another endpoint.
_REPEATABLE = frozenset({"GET", "HEAD", "DELETE"})
#: Status codes of a proxy or load balancer whose backend is unavailable.
_AWAY = frozenset({502, 503, 504})


class Endpoints:
    """A client that sends requests to one of ``urls`` and fails over to the next. Thread-safe.

    ``urls``: URLs of the service without ``/v2``.
    ``options``: options of keystoneauth's Adapter, such as retries at the same endpoint.
    """

    def __init__(self, session: Session, urls: Sequence[str], **options: Any) -> None:
        self._adapters = tuple(Adapter(session, endpoint_override=url.rstrip("/"), **options) for url in urls)
        self._urls = tuple(urls)
        self._lock = threading.Lock()
        self._present = 0

    def request(self, path: str, method: str, **more: Any) -> Any:
        """Send a request; return the response, even if its status is an error.

        Raises: ClientException if no endpoint answers.
        """
        tries = len(self._adapters) if method in _REPEATABLE else 1
        for left in reversed(range(tries)):
            index = self._present
            try:
                answer = self._adapters[index].request(path, method, raise_exc=False, **more)
            except exceptions.ConnectionError:
                self._leave(index)
                if not left:
                    raise
                continue
            if answer.status_code not in _AWAY:
                return answer
            self._leave(index)
            if not left:
                return answer
            answer.close()
        raise AssertionError("the list of endpoints is empty")

    def _leave(self, index: int) -> None:
        """Switch to the next endpoint, unless another thread has switched already."""
        with self._lock:
            if self._present != index or len(self._adapters) == 1:
                return
            self._present = (index + 1) % len(self._adapters)
            new = self._urls[self._present]
        LOG.warning("The image service does not answer at %s; switching to endpoint %s", self._urls[index], new)
