# SPDX-License-Identifier: Apache-2.0
"""The cloud as a process sees it that only reads the database equals the mirror of its control process."""

import numpy as np

from kilonova.claims.present_cloud import PresentCloud
from kilonova.db.database import Database
from kilonova.scenario.model import SimulatedHost
from kilonova.scheduler.engine.engine import Engine
from support.cell import NewCell


def test_its_hosts_are_those_of_the_mirror_and_may_be_changed(cell_of: NewCell) -> None:
    cell = cell_of(SimulatedHost("one"), SimulatedHost("two"))
    cell.boot(3)
    cell.work_off()
    reader = Database(cell.database.url.render_as_string(hide_password=False))
    try:
        state = PresentCloud(reader, Engine()).state()
        hosts = cell.mirror.snapshot()
        assert state.seq == cell.mirror.seq
        assert list(state.hosts.hosts) == list(hosts.hosts)
        assert hosts.num_instances.sum() == 3
        assert np.array_equal(state.hosts.num_instances, hosts.num_instances)
        assert np.array_equal(state.hosts.used, hosts.used)
        state.hosts.used[:] += 1
        assert not np.array_equal(state.hosts.used, cell.mirror.snapshot().used)
        assert state.group("none") is None
    finally:
        reader.close()
