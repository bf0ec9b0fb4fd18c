# SPDX-License-Identifier: Apache-2.0
"""Answers of the control plane about the guests of one host, kept in memory for seconds.

One question brings all files of a guest, so a guest causes at most one question in the time for which an answer is
kept, however much it reads.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from time import monotonic

from cachetools import TTLCache

from kilonova.compute.metadata.throttle import Throttle
from kilonova.errors import Unavailable
from kilonova.messaging.bus import AgentBus
from kilonova.messaging.messages import AskMetadata, GuestMetadata, PasswordPosted, PostPassword
from kilonova.model.posted_password import PostResult
from kilonova.records import dataclass

#: Timeout of a question in seconds. Guests repeat a request that fails.
_WITHIN_S = 5.0
#: Number of requests that may wait for the control plane at once.
WAITING_AT_ONCE = 8
#: Questions about one network, of which a guest that forges addresses may cause many.
_QUESTIONS_PER_S, _QUESTIONS_AT_ONCE = 20.0, 200
_MOST_BYTES = 32 * 2**20
_UNKNOWN_KEPT_S, _MOST_UNKNOWN = 2.0, 10_000
_ENTRY_BYTES = 200

Files = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Source:
    """What a host sees of a guest: network, source address and MAC address of its request; ``mac``: "" if unknown."""

    network_id: str
    address: str
    mac: str = ""


class MetadataAnswers:
    """Metadata of the guests of ``host``. ``kept_s``: seconds for which an answer is kept. Thread-safe.

    ``now``: returns the time in seconds.
    """

    def __init__(self, host: str, bus: AgentBus, kept_s: float, now: Callable[[], float] = monotonic) -> None:
        self._host, self._bus = host, bus
        self._lock = threading.Lock()
        self._known: TTLCache[Source, Files] = TTLCache(_MOST_BYTES, kept_s, timer=now, getsizeof=_size)
        self._unknown: TTLCache[Source, None] = TTLCache(_MOST_UNKNOWN, min(kept_s, _UNKNOWN_KEPT_S), timer=now)
        self._questions: dict[Source, Future[Files | None]] = {}
        self._room = threading.BoundedSemaphore(WAITING_AT_ONCE)
        self._throttle = Throttle(_QUESTIONS_PER_S, _QUESTIONS_AT_ONCE, now=now)

    def files(self, source: Source) -> Files | None:
        """Return path → content; None if the control plane knows no such guest on this host.

        Raises: Unavailable if no control process answers in time, or if too many requests wait for answers.
        """
        with self._lock:
            found = self._known.get(source)
            if found is not None or source in self._unknown:
                return found
        with self._waiting():
            return self._ask_once(source)

    def post_password(self, source: Source, password: str) -> PostResult:
        """Store a password that a guest posts. Raises: Unavailable, as :meth:`files` does."""
        self._count_question(source)
        with self._waiting():
            question = PostPassword(self._host, source.network_id, source.address, source.mac, password)
            answer = self._bus.ask(question, _WITHIN_S)
        if not isinstance(answer, PasswordPosted):
            raise Unavailable("The answer to a posted password has an unexpected type.")
        with self._lock:
            self._known.pop(source, None)
        return answer.result

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        if not self._room.acquire(blocking=False):
            raise Unavailable("Too many requests for metadata wait for the control plane.")
        try:
            yield
        finally:
            self._room.release()

    def _count_question(self, source: Source) -> None:
        if not self._throttle.admits(source.network_id):
            raise Unavailable("There are too many questions about the guests of this network.")

    def _ask_once(self, source: Source) -> Files | None:
        """Ask about a guest, or wait for the answer to a question that is under way."""
        with self._lock:
            asked = self._questions.get(source)
            if asked is None:
                self._count_question(source)
                mine = self._questions[source] = Future()
        if asked is not None:
            return asked.result()
        try:
            files = self._ask(source)
        except BaseException as error:
            mine.set_exception(error)
            raise
        else:
            mine.set_result(files)
            return files
        finally:
            with self._lock:
                del self._questions[source]

    def _ask(self, source: Source) -> Files | None:
        answer = self._bus.ask(AskMetadata(self._host, source.network_id, source.address, source.mac), _WITHIN_S)
        if not isinstance(answer, GuestMetadata):
            raise Unavailable("The answer to a question about metadata has an unexpected type.")
        with self._lock:
            if not answer.found:
                self._unknown[source] = None
                return None
            files = answer.files()
            with contextlib.suppress(ValueError):  # larger than the cache
                self._known[source] = files
            return files


def _size(files: Files) -> int:
    """Return about how much memory the files of a guest need. Files with the same content share it."""
    return sum(map(len, {id(content): content for content in files.values()}.values())) + _ENTRY_BYTES * len(files)
