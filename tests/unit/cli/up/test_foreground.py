# SPDX-License-Identifier: Apache-2.0
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from kilonova.cli.up.cloud_files import lock_folder
from kilonova.cli.up.foreground import STOP_SIGNALS, ignore_signals, run_until_stopped, say, stop_on_signals
from kilonova.errors import Unavailable
from kilonova.process_parts import ProcessParts


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


def test_a_signal_stops_all_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def start(parts: ProcessParts) -> tuple[()]:
        parts.opened("guests", lambda: say("guests keep running"))
        with pytest.raises(Unavailable, match="in use"):
            lock_folder(tmp_path)
        signal.raise_signal(signal.SIGTERM)
        return ()

    run_until_stopped(tmp_path, start)
    assert capsys.readouterr().out == "\nstopping\nguests keep running\nstopped\n"


def test_a_failed_start_stops_all_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def start(parts: ProcessParts) -> tuple[()]:
        parts.opened("guests", lambda: say(""))
        parts.opened("switch", lambda: say("switch stopped"))
        raise Unavailable("no broker")

    for _ in range(2):  # the folder is free again
        with pytest.raises(Unavailable, match="no broker"):
            run_until_stopped(tmp_path, start)
    assert capsys.readouterr().out == "switch stopped\n" * 2


def test_a_line_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    say("ready")
    assert capsys.readouterr().out == "ready\n"
