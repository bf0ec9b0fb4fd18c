# SPDX-License-Identifier: Apache-2.0
"""Pages of actions: order, markers, periods, and events."""

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from kilonova.clock import utc_now
from kilonova.db import instance_actions
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.db.instance_actions import Action, ActionQuery, EndedEvent, NewAction
from kilonova.errors import InvalidRequest
from kilonova.identifiers import new_uuid

UUID = new_uuid()
START = utc_now().replace(microsecond=0)


def minutes(count: int) -> Any:
    return START + timedelta(minutes=count)


@pytest.fixture
def actions(database: Database) -> Database:
    """Actions that began in minutes 0, 10, 10 and 20; the first had an event that ended in minute 30."""

    def write(tx: Transaction) -> None:
        names = ("req-0", "req-1", "req-2", "req-3")
        instance_actions.begin(tx, [NewAction(UUID, "reboot", name, "u", "p") for name in names])
        instance_actions.begin(tx, [NewAction(new_uuid(), "reboot", "req-0", "u", "p")])
        instance_actions.add_events(
            tx,
            [
                EndedEvent(
                    instance_uuid=UUID, request_id="req-0", event="compute_reboot_instance", started_at=minutes(0)
                )
            ],
        )
        instance_actions.fail(tx, [(UUID, "req-3")])
        action, event = t.instance_actions.c, t.instance_action_events.c
        for name, begun in zip(names, (0, 10, 10, 20), strict=True):
            values = {"started_at": minutes(begun), "updated_at": minutes(25) if name == "req-3" else None}
            tx.execute(sa.update(t.instance_actions).where(action.request_id == name).values(values))
        tx.execute(
            sa.update(t.instance_action_events).where(event.instance_uuid == UUID).values(finished_at=minutes(30))
        )

    database.write(write)
    return database


def page(database: Database, **asked: Any) -> tuple[Action, ...]:
    with database.read() as connection:
        return instance_actions.list_page(connection, ActionQuery(UUID, **asked))


def names(found: tuple[Action, ...]) -> list[str]:
    return [action.request_id for action in found]


def test_pages_of_actions(actions: Database) -> None:
    found = page(actions)
    assert names(found) == ["req-3", "req-2", "req-1", "req-0"]
    assert [action.updated_at for action in found] == [minutes(25), minutes(10), minutes(10), minutes(30)]
    assert names(page(actions, limit=2)) == ["req-3", "req-2"]
    assert names(page(actions, limit=2, marker="req-2")) == ["req-1", "req-0"]
    assert page(actions, marker="req-0") == ()
    with pytest.raises(InvalidRequest):
        page(actions, marker="req-9")


def test_periods_of_actions(actions: Database) -> None:
    for period, expected in (
        ({"changed_since": minutes(26)}, ["req-0"]),
        ({"changed_since": minutes(25)}, ["req-3", "req-0"]),
        ({"changed_before": minutes(10)}, ["req-2", "req-1"]),
        ({"changed_before": minutes(29)}, ["req-3", "req-2", "req-1"]),
        ({"changed_since": minutes(5), "changed_before": minutes(25)}, ["req-3", "req-2", "req-1"]),
    ):
        assert names(page(actions, **period)) == expected


def test_the_events_of_an_action_are_those_of_its_server(actions: Database) -> None:
    with actions.read() as connection:
        (event,) = instance_actions.events(connection, UUID, "req-0")
        assert (event.event, event.finished_at) == ("compute_reboot_instance", minutes(30))
        assert instance_actions.events(connection, UUID, "req-1") == ()
        assert instance_actions.find(connection, UUID, "req-9") is None
