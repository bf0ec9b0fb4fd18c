# SPDX-License-Identifier: Apache-2.0
import logging
import re

import pytest

from kilonova.conductor.workflow_engine import server_log
from support.cell import NewCell, host

_LINE = re.compile(r"Server (\S+) ([a-z ]+?)(?:: (.*))? \[(\S+)\]")


def told(caplog: pytest.LogCaptureFixture, uuid: str) -> list[tuple[str, str | None, str]]:
    """What the log says of a server: event, details, request id."""
    lines = [_LINE.fullmatch(record.getMessage()) for record in caplog.records if record.name == server_log.__name__]
    assert all(lines)
    return [(line[2], line[3], line[4]) for line in lines if line is not None and line[1] == uuid]


def test_the_log_tells_a_whole_life(cell_of: NewCell, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    cell = cell_of(host("a", failing_spawns=1), host("b"))
    (uuid,) = cell.boot(force_host=None)
    cell.bus.run()
    for kind in ("stop", "start", "reboot", "hard-reboot"):
        cell.power(uuid, kind)
        cell.bus.run()
    where = cell.instance(uuid).host
    cell.delete(uuid)
    cell.bus.run()
    events = told(caplog, uuid)
    build = f"req-{uuid}"
    expected = [("created", None, build), ("placed", "host a, node a", build)]
    if where == "b":
        expected += [
            ("failed to spawn", events[2][1] or "", build),
            ("placed", "host b, node b", build),
        ]
    expected += [
        ("spawned", f"host {where}", build),
        ("stopped", f"host {where}", "req-stop"),
        ("started", f"host {where}", "req-start"),
        ("rebooted", f"host {where}", "req-reboot"),
        ("rebooted", f"host {where}", "req-hard-reboot"),
        ("deleted", f"host {where}", "req-delete"),
    ]
    assert events == expected


def test_a_failure_says_why(cell_of: NewCell, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    cell = cell_of(host("a"))
    uuids = cell.boot(5)
    cell.bus.run()
    for uuid in uuids:
        created, failed = told(caplog, uuid)
        assert created[0] == "created"
        assert failed[0] == "failed"
        assert failed[1] is not None
        assert failed[1].startswith("build: No valid host was found for server 5 of 5.")
