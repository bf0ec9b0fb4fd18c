# SPDX-License-Identifier: Apache-2.0

from datetime import timedelta

from kilonova.db import host_agents
from kilonova.db.database import Database
from kilonova.db.host_agents import Process


def test_which_processes_live(database: Database) -> None:
    database.write(lambda tx: host_agents.register(tx, Process("alive"), (), host_agents.LEASE))
    database.write(lambda tx: host_agents.register(tx, Process("dead"), (), timedelta(seconds=-5)))
    with database.read() as connection:
        living = host_agents.living(connection, database.clock.now())
    assert "alive" in living
    assert "dead" not in living
