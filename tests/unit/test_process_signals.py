# SPDX-License-Identifier: Apache-2.0
"""A descriptor that is readable after a signal."""

import os
import select
import signal
from collections.abc import Iterator

import pytest

from kilonova.process_signals import Wakeup, wakeup


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    previous = signal.signal(signal.SIGUSR1, lambda *_: None)
    yield
    signal.signal(signal.SIGUSR1, previous)


def is_readable(signals: Wakeup) -> bool:
    return bool(select.select([signals], [], [], 0)[0])


def test_a_signal_makes_it_readable() -> None:
    with wakeup() as signals:
        assert not is_readable(signals)
        signal.raise_signal(signal.SIGUSR1)
        assert is_readable(signals)
        signals.wait()
        assert not is_readable(signals)


def test_more_signals_than_it_holds_do_no_harm(capsys: pytest.CaptureFixture[str]) -> None:
    with wakeup() as signals:
        for _ in range(70_000):
            signal.raise_signal(signal.SIGUSR1)
        assert is_readable(signals)
    assert capsys.readouterr().err == ""


def test_the_former_descriptor_is_restored() -> None:
    with wakeup():
        with wakeup() as inner:
            pass
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(inner.fileno())
        assert signal.set_wakeup_fd(-1) != -1
    assert signal.set_wakeup_fd(-1) == -1
