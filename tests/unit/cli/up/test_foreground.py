# SPDX-License-Identifier: Apache-2.0
import signal
from collections.abc import Iterator

import pytest

from kilonova.cli.up.foreground import STOP_SIGNALS, ignore_signals, say, stop_on_signals


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Keep the handlers of the test process."""
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_signals_stop_the_supervisor_until_it_stops() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    stop_on_signals()
    for number in STOP_SIGNALS:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    ignore_signals()
    for number in STOP_SIGNALS:
        signal.raise_signal(number)


def test_nohup_has_its_effect() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    stop_on_signals()
    signal.raise_signal(signal.SIGHUP)


def test_a_line_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    say("ready")
    assert capsys.readouterr().out == "ready\n"
