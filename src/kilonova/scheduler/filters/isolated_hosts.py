# SPDX-License-Identifier: Apache-2.0
"""IsolatedHostsFilter: for servers of isolated images, only isolated hosts."""

from typing import ClassVar, Self

import numpy as np

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.host_table import BoolArray, HostTable
from kilonova.scheduler.reads import NOTHING, Reads
from kilonova.scheduler.settings import SchedulerConfig


@dataclass(frozen=True, slots=True)
class IsolatedHostsFilter:
    """Confine servers of ``images`` to the ``isolated`` hosts; ``restrict`` excludes other servers from these hosts.

    A server without an image (booted from a volume) is treated like a server of an image that is not isolated.

    Shapes: rows of the isolated hosts → (H,) bool.
    Source: spec SCHEDULER §3 #18.
    """

    run_once: ClassVar[bool] = True
    runs_on_rebuild: ClassVar[bool] = True
    depends_on: ClassVar[DependsOn] = DependsOn.SHARED
    reads: ClassVar[Reads] = NOTHING
    images: frozenset[str] = frozenset()
    isolated: frozenset[str] = frozenset()
    restrict: bool = True
    reason: str = "isolated hosts are for isolated images"

    @classmethod
    def configured(cls, config: SchedulerConfig) -> Self:
        return cls(
            images=frozenset(config.isolated_images),
            isolated=frozenset(config.isolated_hosts),
            restrict=config.restrict_isolated_hosts_to_isolated_images,
        )

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:
        if spec.image is not None and spec.image.id in self.images:
            return self._isolated_rows(hosts)
        if self.restrict:
            return ~self._isolated_rows(hosts)
        return hosts.all_hosts

    def _isolated_rows(self, hosts: HostTable) -> BoolArray:
        rows = hosts.rows_of_host()
        mask = np.zeros(len(hosts), dtype=np.bool_)
        mask[[row for host in self.isolated for row in rows.get(host, ())]] = True
        return mask
