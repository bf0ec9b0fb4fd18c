# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from kilonova.api.replica import Replica
from kilonova.errors import Unavailable
from support.control import Control


class Away:
    """A database that does not answer."""

    @contextmanager
    def read(self) -> Iterator[Any]:
        raise Unavailable("The database server does not answer.")
        yield


def test_a_replica_that_does_not_answer_is_not_read(control: Control, caplog: pytest.LogCaptureFixture) -> None:
    away: Any = Away()
    replica = Replica(away, 30.0)
    assert [replica.age_s(control.process.database.clock.now()) for _ in range(3)] == [None] * 3
    assert caplog.text.count("The read replica is not read: The database server does not answer.") == 1


def test_the_age_is_that_of_the_newest_heartbeat(control: Control) -> None:
    database = control.process.database
    replica, now = Replica(database, 30.0), database.clock.now()
    age_s = replica.age_s(now)
    assert age_s is not None
    assert replica.age_s(now - timedelta(days=1)) == 0, "a clock that goes backwards"
    later = replica.age_s(now + timedelta(seconds=5))
    assert later is not None
    assert 4 < later - age_s < 6 or later <= 5, "a heartbeat may have been written meanwhile"
    assert replica.age_s(now + timedelta(seconds=60)) is None
