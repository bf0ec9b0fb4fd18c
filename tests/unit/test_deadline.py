# SPDX-License-Identifier: Apache-2.0
import threading

import pytest

from kilonova import deadline
from kilonova.deadline import Deadline
from kilonova.errors import ClientGone, DeadlineExceeded


def test_a_deadline_is_over_when_its_time_is_or_when_the_client_is_gone() -> None:
    now, gone = [10.0], [False]
    one = Deadline(12.0, lambda: gone[0], lambda: now[0])
    one.check()
    now[0] = 12.5
    with pytest.raises(DeadlineExceeded):
        one.check()
    gone[0] = True
    with pytest.raises(ClientGone):
        one.check()
    assert Deadline(None, lambda: False, lambda: 1e99).is_over() is False


def test_a_deadline_is_for_its_thread_and_for_its_block() -> None:
    seen: list[bool] = []
    over = Deadline(None, lambda: True)
    with deadline.running(over):
        thread = threading.Thread(target=lambda: seen.append(deadline.is_over()))
        thread.start()
        thread.join()
        assert deadline.is_over()
        with deadline.running(deadline.NEVER):
            deadline.check()
        with pytest.raises(ClientGone):
            deadline.check()
    deadline.check()
    assert seen == [False]
