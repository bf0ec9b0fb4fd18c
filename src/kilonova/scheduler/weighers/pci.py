# SPDX-License-Identifier: Apache-2.0
"""PCIWeigher: prefers hosts with few free PCI devices, to keep the other hosts for servers that need PCI devices."""

from typing import ClassVar

import numpy as np

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.host_table import FloatArray, HostTable, Rows, pick
from kilonova.scheduler.reads import Reads, names
from kilonova.scheduler.weighers.base import ColumnWeigher

_MOST = 100


@dataclass(frozen=True, slots=True)
class PCIWeigher(ColumnWeigher):
    """Prefer hosts with few free PCI devices. Shapes: (H,) → (N,). Units: devices; more than 99 are rated like 99.

    Source: spec SCHEDULER §5 #5.
    """

    option: ClassVar[str] = "pci_weight_multiplier"
    depends_on: ClassVar[DependsOn] = DependsOn.ROWS
    reads: ClassVar[Reads] = Reads(metadata=names("pci_weight_multiplier"))

    def weigh(self, hosts: HostTable, spec: RequestSpec, rows: Rows) -> FloatArray | None:  # noqa: ARG002
        states = hosts.device_states
        if len(states) == 1:
            return None  # no host reports a device
        free = states.summaries().devices[states.shapes(pick(hosts.devices, rows))]
        return _MOST - np.minimum(free, _MOST - 1).astype(float)
