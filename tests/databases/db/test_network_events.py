# SPDX-License-Identifier: Apache-2.0
"""Stored events of the network service, on every database."""

from kilonova.db import network_events, workflows
from kilonova.db.database import Database
from kilonova.db.workflows import WorkflowRow
from kilonova.model.network_event import NetworkEvent, NetworkEventName
from support.stored_servers import store_server

PLUGGED = NetworkEventName.VIF_PLUGGED


def _server_at_work(database: Database) -> str:
    server = store_server(database).uuid
    row = WorkflowRow(uuid=server, kind="build", instance_uuid=server, reservation_id="", request_id="req-1", step="a")
    database.write(lambda tx: workflows.insert(tx, [row], "me"))
    return server


def test_the_last_event_of_a_name_about_a_port_is_kept(database: Database) -> None:
    server = _server_at_work(database)
    failed = NetworkEvent(PLUGGED, server, "port-1", "failed")
    later = NetworkEvent(PLUGGED, server, "port-1")
    other = NetworkEvent(NetworkEventName.VIF_UNPLUGGED, server, "port-1")
    database.write(lambda tx: network_events.store(tx, [failed]))
    database.write(lambda tx: network_events.store(tx, [failed, other, later]))
    with database.read() as connection:
        stored = network_events.of_server(connection, server)
        assert network_events.servers_with_events(connection, [server, "other"]) == {server}
    assert {each.event for each in stored} == {later, other}
    assert all(abs((database.clock.now() - each.received_at).total_seconds()) < 60 for each in stored)
    database.write(lambda tx: network_events.forget(tx, server))
    with database.read() as connection:
        assert network_events.of_server(connection, server) == ()


def test_events_are_deleted_after_the_workflow_of_their_server(database: Database) -> None:
    server, other = _server_at_work(database), _server_at_work(database)
    database.write(lambda tx: network_events.store(tx, [NetworkEvent(PLUGGED, server, "port-1")]))
    database.write(lambda tx: workflows.drop(tx, [server]))
    database.write(lambda tx: network_events.store(tx, [NetworkEvent(PLUGGED, other, "port-2")]))
    with database.read() as connection:
        assert network_events.servers_with_events(connection, [server, other]) == {other}


def test_an_event_that_no_workflow_can_wait_for_is_not_stored(database: Database) -> None:
    server = store_server(database).uuid
    events = [NetworkEvent(PLUGGED, server, "port-1"), NetworkEvent(PLUGGED, "no server", "port-1")]
    database.write(lambda tx: network_events.store(tx, events))
    with database.read() as connection:
        assert network_events.servers_with_events(connection, [server, "no server"]) == frozenset()
