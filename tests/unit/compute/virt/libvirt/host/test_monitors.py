# SPDX-License-Identifier: Apache-2.0
"""What a libvirt host measures of itself."""

import logging

import pytest

from kilonova.compute.virt.libvirt.host.monitors import CpuMonitor, measures_cpus

_FIRST = {"user": 100, "kernel": 100, "idle": 700, "iowait": 100}


def test_shares_are_of_the_time_since_the_measurement_before() -> None:
    monitor = CpuMonitor()
    first = monitor.measure(_FIRST, 2700)
    assert (first["cpu.percent"], first["cpu.idle.percent"], first["cpu.frequency"]) == (pytest.approx(0.3), 0.7, 2700)
    second = monitor.measure({"user": 130, "kernel": 110, "idle": 760, "iowait": 100}, 2700)
    assert second["cpu.percent"] == pytest.approx(0.4)
    assert second["cpu.user.percent"] == pytest.approx(0.3)
    assert second["cpu.user.time"] == 130


def test_no_time_and_time_that_goes_back_make_no_nonsense() -> None:
    monitor = CpuMonitor()
    monitor.measure(_FIRST, 0)
    for times in (_FIRST, {name: value - 50 for name, value in _FIRST.items()}):
        found = monitor.measure(times, 0)
        assert found["cpu.percent"] == 0.0


def test_a_monitor_that_is_not_there_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    assert not measures_cpus(())
    assert not caplog.records
    with caplog.at_level(logging.WARNING):
        assert measures_cpus(("cpu.virt_driver", "memory.bandwidth"))
    assert "memory.bandwidth" in caplog.text
