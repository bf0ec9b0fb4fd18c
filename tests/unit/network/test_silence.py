# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.errors import Unavailable
from kilonova.network.silence import Silence


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def is_refused(silence: Silence) -> bool:
    try:
        with silence.request():
            return False
    except Unavailable:
        return True


def test_a_silent_service_is_tried_by_one_request_at_a_time() -> None:
    clock = Clock()
    silence = Silence(5.0, clock)
    clock.now = 10.0
    silence.timed_out(since=5.0)
    with silence.request():
        assert is_refused(silence)
        assert is_refused(silence)
    with silence.request():
        assert is_refused(silence)
        silence.answered()
        assert not is_refused(silence)
    assert not is_refused(silence)


def test_a_slow_request_beside_answered_ones_is_no_silence() -> None:
    clock = Clock()
    silence = Silence(5.0, clock)
    clock.now = 7.0
    silence.answered()
    clock.now = 10.0
    silence.timed_out(since=5.0)
    with silence.request():
        assert not is_refused(silence)


def test_a_request_with_a_short_time_limit_says_nothing() -> None:
    clock = Clock()
    silence = Silence(5.0, clock)
    clock.now = 10.0
    silence.timed_out(since=9.0)
    with silence.request():
        assert not is_refused(silence)


def test_a_probe_that_raises_lets_the_next_one_through() -> None:
    clock = Clock()
    silence = Silence(5.0, clock)
    clock.now = 10.0
    silence.timed_out(since=5.0)
    with pytest.raises(ConnectionError), silence.request():
        raise ConnectionError
    assert not is_refused(silence)
