# SPDX-License-Identifier: Apache-2.0
from kilonova.db import host_agents, services
from kilonova.db.database import Database
from kilonova.db.host_agents import LEASE, Process
from support.heartbeats import DOWN_TIME, SESSION, beat, register, service_of
from support.processes import pass_time


def test_control_processes_are_services_of_their_machine(database: Database) -> None:
    for uuid in ("one", "two"):
        register(database, Process(uuid, "control1"), lease=LEASE * 10)
    scheduler = service_of(database, "control1", "nova-scheduler")
    assert scheduler.is_up
    assert scheduler.last_seen_at is not None
    assert not service_of(database, "control2", "nova-conductor").is_up
    pass_time(database, DOWN_TIME * 2)
    beat(database, "one")
    database.write(lambda tx: host_agents.mark_silent(tx, tx.now - DOWN_TIME))
    assert service_of(database, "control1", "nova-scheduler").is_up, "one of two is alive"
    pass_time(database, DOWN_TIME * 2)
    database.write(lambda tx: host_agents.mark_silent(tx, tx.now - DOWN_TIME))
    again = service_of(database, "control1", "nova-scheduler")
    assert not again.is_up
    assert again.last_seen_at is not None


def test_a_host_that_is_deleted_is_forgotten(database: Database) -> None:
    service = service_of(database, "a")
    register(database, SESSION, "a")
    database.write(lambda tx: services.delete(tx, service.uuid))
    with database.read() as connection:
        assert host_agents.process_of(connection, "a") is None
