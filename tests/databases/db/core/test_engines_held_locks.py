# SPDX-License-Identifier: Apache-2.0
"""A process that stops in the middle of a transaction delays the others for seconds, and loses no write."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kilonova.db import resource_classes
from kilonova.db.database import Database

#: Clients give up after half a minute, as a rule; the limit itself is 5 s.
_HELD_UP_S = 20.0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["postgresql", "mariadb"], indirect=True)
def test_others_write_within_seconds_and_the_transaction_is_done_again(database_url: str) -> None:
    stopped, other = Database(database_url), Database(database_url)
    has_begun, goes_on = threading.Event(), threading.Event()
    tries: list[float] = []

    def stop_once(tx: Any) -> None:
        resource_classes.create(tx, "CUSTOM_OF_THE_STOPPED")
        tries.append(time.monotonic())
        if len(tries) == 1:
            has_begun.set()
            goes_on.wait(60)

    with ThreadPoolExecutor(1) as pool:
        doing = pool.submit(stopped.write, stop_once)
        assert has_begun.wait(30)
        try:
            other.write(lambda tx: resource_classes.create(tx, "CUSTOM_OF_THE_OTHER"))
            assert time.monotonic() - tries[0] < _HELD_UP_S
        finally:
            goes_on.set()
        doing.result(60)
    with other.read() as connection:
        names = [each.name for each in resource_classes.list_all(connection) if each.name.startswith("CUSTOM")]
    assert sorted(names) == ["CUSTOM_OF_THE_OTHER", "CUSTOM_OF_THE_STOPPED"]
    assert len(tries) == 2
    for each in (stopped, other):
        each.close()
