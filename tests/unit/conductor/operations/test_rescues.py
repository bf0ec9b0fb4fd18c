# SPDX-License-Identifier: Apache-2.0
"""Servers that stay rescued for longer than rescue_timeout."""

import logging

import pytest

from support.cell import NewCell, host, lines_about


def test_a_rescued_server_is_unrescued_after_a_while(cell_of: NewCell, caplog: pytest.LogCaptureFixture) -> None:
    cell = cell_of(host("node1"))
    rescued, running = cell.boot(2)
    cell.bus.run()
    launched_at = cell.instance(rescued).launched_at
    cell.rescue(rescued)
    assert cell.unrescue_forgotten() == 0, "it is only being rescued"
    cell.bus.run()
    since = cell.instance(rescued).launched_at
    assert launched_at is not None
    assert since is not None
    assert since > launched_at
    assert cell.unrescue_forgotten(3600) == 0
    with caplog.at_level(logging.INFO):
        assert cell.unrescue_forgotten() == 1
        assert cell.unrescue_forgotten() == 0
        cell.bus.run()
    assert cell.check() == {rescued: "active", running: "active"}
    words = [line.partition(" [")[0] for line in lines_about(rescued, caplog.messages)]
    assert words == ["is unrescued: it was rescued 0 s ago", "unrescued: host node1"]
