# SPDX-License-Identifier: Apache-2.0
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from kilonova.errors import Unavailable
from kilonova.network.limited_client import LimitedClient
from support.fake_neutron import FakeNeutron


class Hanging(FakeNeutron):
    """Network service whose lists end only when ``ends`` is set. ``begun``: released by each list that begins."""

    def __init__(self) -> None:
        super().__init__()
        self.ends = threading.Event()
        self.begun = threading.Semaphore(0)

    def list(self, kind: str, *, token: str | None = None, **filters: object) -> Sequence[Any]:
        self.begun.release()
        assert self.ends.wait(30)
        return super().list(kind, token=token, **filters)


def test_only_some_threads_wait_for_a_service_that_hangs() -> None:
    service = Hanging()
    client = LimitedClient(service, 2, patience_s=0.3)
    threads = [threading.Thread(target=lambda: client.list("ports")) for _ in range(2)]
    for thread in threads:
        thread.start()
        assert service.begun.acquire(timeout=30)
    with pytest.raises(Unavailable, match="Too many"):
        client.list("ports")
    start = time.monotonic()
    for _ in range(20):
        with pytest.raises(Unavailable, match="Too many"):
            client.create("ports", {})
    assert time.monotonic() - start < 0.3 * 20  # only the first calls after the begin of the others wait
    service.ends.set()
    for thread in threads:
        thread.join(30)
    assert client.list("ports") == []


def test_a_call_waits_for_a_permit_while_others_end() -> None:
    service = Hanging()
    client = LimitedClient(service, 1, patience_s=30)
    first = threading.Thread(target=lambda: client.list("ports"))
    first.start()
    assert service.begun.acquire(timeout=30)
    threading.Timer(0.1, service.ends.set).start()
    assert client.list("ports") == []
    first.join(30)
