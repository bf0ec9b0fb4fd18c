# SPDX-License-Identifier: Apache-2.0
import threading
from contextlib import ExitStack

import pytest

from kilonova.api import large_bodies
from kilonova.errors import Unavailable

MIB = 1 << 20


def test_large_bodies_take_turns_and_small_ones_do_not_wait() -> None:
    with ExitStack() as others:
        others.enter_context(large_bodies.turn(2 * MIB))
        others.enter_context(large_bodies.turn(16 * MIB))
        with large_bodies.turn(MIB - 1):
            pass
        with pytest.raises(Unavailable, match="retry later"), large_bodies.turn(MIB):
            pytest.fail("a third one had its turn")
    with large_bodies.turn(MIB):
        pass


def test_one_that_waits_has_its_turn_as_soon_as_another_is_done() -> None:
    had, done = threading.Event(), threading.Event()

    def wait() -> None:
        with large_bodies.turn(MIB):
            had.set()
            done.wait(5)

    with large_bodies.turn(MIB), large_bodies.turn(MIB):
        waiting = threading.Thread(target=wait)
        waiting.start()
        assert not had.wait(0.1)
    assert had.wait(5)
    done.set()
    waiting.join()


def test_a_turn_ends_with_an_error_too() -> None:
    for _ in range(3):
        with pytest.raises(ValueError, match="bad"), large_bodies.turn(MIB):
            raise ValueError("bad")
