# SPDX-License-Identifier: Apache-2.0
"""Metrics of a host, if ``[DEFAULT] compute_monitors`` enables them."""

import logging
from collections.abc import Iterable, Mapping

LOG = logging.getLogger(__name__)
_CPU = "cpu.virt_driver"
_TIMES = ("user", "kernel", "idle", "iowait")


class CpuMonitor:
    """Turns the CPU times of a host into the metrics of Nova's cpu.virt_driver monitor.

    The metrics in "percent" are fractions, from 0 to 1, of the time since the previous measurement.
    """

    def __init__(self) -> None:
        self._before: Mapping[str, int] = {}

    def measure(self, times: Mapping[str, int], frequency_mhz: int) -> Mapping[str, float]:
        """Return metrics by name. ``times``: kind of use, such as idle → nanoseconds since the host was booted."""
        now = {name: int(times.get(name, 0)) for name in _TIMES}
        spent = {name: max(0, now[name] - self._before.get(name, 0)) for name in _TIMES}
        self._before = now
        total = sum(spent.values())
        shares = {name: spent[name] / total if total else 0.0 for name in _TIMES}
        return {
            "cpu.frequency": float(frequency_mhz),
            **{f"cpu.{name}.time": float(now[name]) for name in _TIMES},
            **{f"cpu.{name}.percent": shares[name] for name in _TIMES},
            "cpu.percent": 1.0 - shares["idle"] if total else 0.0,
        }


def measures_cpus(monitors: Iterable[str]) -> bool:
    """Tell whether ``monitors`` contains the CPU monitor, and log unknown monitors."""
    unknown = [name for name in monitors if name.strip() and name.strip() != _CPU]
    if unknown:
        LOG.warning("[DEFAULT] compute_monitors: unknown monitor %s; only %s is supported", ", ".join(unknown), _CPU)
    return any(name.strip() == _CPU for name in monitors)
