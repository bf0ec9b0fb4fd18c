# SPDX-License-Identifier: Apache-2.0
"""Several endpoints of the image service: one is asked until it cannot be reached, then the next one.

::

    GET, DELETE ── one endpoint ── cannot be reached, or 502, 503, 504 ──▶ the next one ── … ──▶ the last one's answer
    POST, PUT   ── one endpoint ── the same ──▶ the failure; what comes after it goes to the next one
"""

import logging
import threading
from collections.abc import Sequence
from typing import Any

from keystoneauth1 import exceptions
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session

LOG = logging.getLogger(__name__)
#: What may be asked again elsewhere: it does the same twice as once.
_REPEATABLE = frozenset({"GET", "HEAD", "DELETE"})
#: An answer of what stands before a service that is not there.
_AWAY = frozenset({502, 503, 504})


class Endpoints:
    """Asks one of ``urls``, which have no ``/v2``. Safe for any number of threads.

    ``options``: of the adapter, as keystoneauth has them: how often a request is tried again at the same endpoint.
    """

    def __init__(self, session: Session, urls: Sequence[str], **options: Any) -> None:
        self._adapters = tuple(Adapter(session, endpoint_override=url.rstrip("/"), **options) for url in urls)
        self._urls = tuple(urls)
        self._lock = threading.Lock()
        self._present = 0

    def request(self, path: str, method: str, **more: Any) -> Any:
        """Return the answer, whatever its status. Raises: ClientException, when no endpoint answers."""
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
        raise AssertionError("there is always an endpoint")

    def _leave(self, index: int) -> None:
        """Ask the next endpoint from now on, unless another thread has seen to that."""
        with self._lock:
            if self._present != index or len(self._adapters) == 1:
                return
            self._present = (index + 1) % len(self._adapters)
            new = self._urls[self._present]
        LOG.warning("The image service does not answer at %s; it is asked at %s from now on", self._urls[index], new)
