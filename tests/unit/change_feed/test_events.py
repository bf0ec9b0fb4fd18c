# SPDX-License-Identifier: Apache-2.0
from datetime import datetime
from typing import get_args

import orjson
import pytest

from kilonova.change_feed.events import KINDS, MOST_CHANGES, MOST_NAMES, Batch, event_of
from kilonova.db.change_log import changes
from kilonova.db.change_log.changes import (
    Change,
    Commit,
    LoggedAgents,
    LoggedAggregate,
    LoggedInstance,
    LoggedProcess,
    LoggedService,
    LoggedUse,
)

AT = datetime.fromisoformat("2026-05-04T03:02:01.123456")


def test_every_kind_of_the_change_log_has_a_name_but_the_former_heartbeats() -> None:
    assert set(get_args(changes.Kind)) - KINDS.keys() == {"heartbeat"}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (Change("usage", "p", LoggedUse(3, {"VCPU": 4})), {"kind": "allocation", "id": "p", "used": {"VCPU": 4}}),
        (Change("instance", "s", None), {"kind": "server", "id": "s", "deleted": True}),
        (
            Change("instance", "s", LoggedInstance("h", "n", True, "m1", {"a": "b"})),
            {"kind": "server", "id": "s", "host": "h", "node": "n", "busy": True, "flavor": "m1"},
        ),
        (
            Change("service", "h", LoggedService(True, "why", False, 1.0)),
            {"kind": "service", "id": "h", "disabled": True, "reason": "why", "forced_down": False},
        ),
        (Change("process", "u", LoggedProcess(1.0)), {"kind": "process", "id": "u", "up": False}),
        (
            Change("aggregate", "1", LoggedAggregate("u", "rack", ["h"], {"k": "v"})),
            {"kind": "aggregate", "id": "1", "name": "rack", "metadata": {"k": "v"}, "hosts": ["h"]},
        ),
        (Change("isolation", "", 7), {"kind": "isolation", "id": "", "version": 7}),
        (Change("metrics", "n", {"cpu": 0.5}), {"kind": "metrics", "id": "n", "metrics": {"cpu": 0.5}}),
    ],
)
def test_a_change_is_told_in_short(change: Change, told: object) -> None:
    assert event_of(Commit(9, (change,)), AT) == {"seq": 9, "at": "2026-05-04T03:02:01.123Z", "changes": [told]}


def test_long_lists_are_cut_and_counted() -> None:
    names = [f"h{number}" for number in range(MOST_NAMES + 1)]
    many = tuple(Change("agents", str(number), LoggedAgents(names)) for number in range(MOST_CHANGES + 2))
    event = event_of(Commit(1, many), AT)
    assert (len(event["changes"]), event["omitted"]) == (MOST_CHANGES, 2)
    assert (len(event["changes"][0]["hosts"]), event["changes"][0]["hosts_count"]) == (MOST_NAMES, MOST_NAMES + 1)


@pytest.mark.parametrize(
    ("batch", "stream", "answer"),
    [
        (
            Batch(3, ((2, b'{"a":"b"}'), (3, b"{}"))),
            b'id: 2\nevent: change\ndata: {"a":"b"}\n\nid: 3\nevent: change\ndata: {}\n\n',
            {"seq": 3, "reload": False, "events": [{"a": "b"}, {}]},
        ),
        (
            Batch(4),
            b'id: 4\nevent: heartbeat\ndata: {"seq":4}\n\n',
            {"seq": 4, "reload": False, "events": []},
        ),
        (
            Batch(5, is_reload=True),
            b'id: 5\nevent: reload\ndata: {"seq":5}\n\n',
            {"seq": 5, "reload": True, "events": []},
        ),
    ],
)
def test_a_batch_has_two_forms(batch: Batch, stream: bytes, answer: object) -> None:
    assert batch.as_stream == stream
    assert orjson.loads(orjson.dumps(batch.as_answer)) == answer
