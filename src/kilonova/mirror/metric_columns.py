# SPDX-License-Identifier: Apache-2.0
"""What hypervisors report of themselves, as a column a metric."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Columns = dict[str, NDArray[np.float64]]


class MetricColumns:
    """Hypervisors are known by their uuids. ``columns`` are of the newest layout: replaced, never written."""

    def __init__(self) -> None:
        self.columns: Columns = {}
        self._rows = 0
        self._told: dict[str, Mapping[str, float]] = {}

    def clear(self) -> None:
        self._told.clear()

    def remove(self, uuid: str) -> None:
        """Drop what a hypervisor told, from the next layout on; absent is success."""
        self._told.pop(uuid, None)

    def set(self, uuid: str, value: Mapping[str, float], row: int | None) -> None:
        """Take over what a hypervisor tells now, whose row is ``row`` where there is a layout that has it."""
        before = self._told.get(uuid, {})
        self._told[uuid] = value
        if row is None:
            return
        for name in before.keys() | value.keys():
            column = self.columns.get(name)
            changed = np.full(self._rows, np.nan) if column is None else column.copy()
            changed[row] = value.get(name, np.nan)
            self.columns[name] = changed

    def lay_out(self, row_of: Callable[[str], int | None], rows: int) -> None:
        """Make the columns of a new layout. ``row_of``: uuid → row, None when it has none."""
        columns: Columns = {}
        for uuid, metrics in self._told.items():
            if (row := row_of(uuid)) is not None:
                for name, value in metrics.items():
                    if name not in columns:
                        columns[name] = np.full(rows, np.nan)
                    columns[name][row] = value
        self.columns, self._rows = columns, rows
