# SPDX-License-Identifier: Apache-2.0
"""Metrics that nodes report, as one column per metric."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Columns = dict[str, NDArray[np.float64]]


class MetricColumns:
    """Metrics by node uuid. ``columns``: metric → column of the newest layout; a change replaces the array."""

    def __init__(self) -> None:
        self.columns: Columns = {}
        self._rows = 0
        self._told: dict[str, Mapping[str, float]] = {}

    def clear(self) -> None:
        self._told.clear()

    def remove(self, uuid: str) -> None:
        """Remove a node's metrics; the next layout lacks them. Not an error if the node is unknown."""
        self._told.pop(uuid, None)

    def set(self, uuid: str, value: Mapping[str, float], row: int | None) -> None:
        """Store a node's metrics. ``row``: the node's row in the present layout, or None if it has no row."""
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
        """Build the columns of a layout with ``rows`` rows. ``row_of``: returns the row of a node uuid, or None."""
        columns: Columns = {}
        for uuid, metrics in self._told.items():
            if (row := row_of(uuid)) is not None:
                for name, value in metrics.items():
                    if name not in columns:
                        columns[name] = np.full(rows, np.nan)
                    columns[name][row] = value
        self.columns, self._rows = columns, rows
