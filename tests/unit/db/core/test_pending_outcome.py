# SPDX-License-Identifier: Apache-2.0
import threading

import pytest

from kilonova.db.core.pending_outcome import PendingOutcome
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database


def test_who_comes_first_begins_it_or_gives_it_up() -> None:
    begun, given_up = PendingOutcome(), PendingOutcome()
    assert begun.set_running_or_notify_cancel()
    assert not begun.cancel()
    assert given_up.cancel()
    assert not given_up.set_running_or_notify_cancel()


def test_one_thread_waits_until_another_one_sets_the_outcome() -> None:
    pending = PendingOutcome()
    assert not pending.wait(0.001)
    assert not pending.done()
    setting = threading.Timer(0.01, pending.set_result, ["written"])
    setting.start()
    assert pending.wait(-1)
    assert pending.done()
    assert pending.wait(0)  # as often as one likes
    assert pending.result() == "written"
    setting.join()


def test_an_outcome_that_says_that_something_took_too_long_is_one(sqlite: Database) -> None:
    """It is the job that failed with it, and not the wait for its outcome."""

    def job(_tx: Transaction) -> None:
        raise TimeoutError("too long")

    with pytest.raises(TimeoutError, match="too long"):
        sqlite.write_unless_away(job)
