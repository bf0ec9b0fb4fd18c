# SPDX-License-Identifier: Apache-2.0
"""CrossCellWeigher: prefers hosts in the server's current cell when a server is moved."""

from typing import ClassVar

import numpy as np

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.host_table import FloatArray, HostTable, Rows
from kilonova.scheduler.reads import Reads, names
from kilonova.scheduler.weighers.base import ColumnWeigher


@dataclass(frozen=True, slots=True)
class CrossCellWeigher(ColumnWeigher):
    """Rate the hosts in the source cell of a move with 1, and hosts in other cells with -1.

    Only requests with a source cell (moves that may cross cells) are rated.
    Shapes: hosts.cell_uuids (H,) → (N,). Source: spec SCHEDULER §5 #10.
    """

    option: ClassVar[str] = "cross_cell_move_weight_multiplier"
    depends_on: ClassVar[DependsOn] = DependsOn.NAMES
    reads: ClassVar[Reads] = Reads(metadata=names("cross_cell_move_weight_multiplier"))
    multiplier: float = 1000000.0

    def weigh(self, hosts: HostTable, spec: RequestSpec, rows: Rows) -> FloatArray | None:
        if spec.source_cell is None or not hosts.cell_uuids:
            return None
        in_source_cell = np.array([cell == spec.source_cell for cell in hosts.cell_uuids], dtype=np.bool_)
        return np.where(in_source_cell[rows], 1.0, -1.0)
