# SPDX-License-Identifier: Apache-2.0
"""A process that takes over what another one began tells how it ends, and not again that it began."""

from pathlib import Path
from typing import Any

from kilonova.cli.wiring.core import Parts
from kilonova.notifications.message import Format
from support.control import Control, start_control
from support.recorded_notifications import RecordingSink
from support.waiting import wait_until

_SLOW = """
images: [{name: cirros}]
hosts:
  - {name: node1, live_migration_s: 60}
  - {name: node2, live_migration_s: 60}
"""


def start(folder: Path) -> tuple[Control, RecordingSink]:
    sink = RecordingSink()
    more = "[notifications]\nnotification_format = versioned\n"
    return start_control(folder, parts=Parts(sinks=[sink]), scenario=_SLOW, more=more), sink


def migrations(control: Control, uuid: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = control.admin.get(f"/servers/{uuid}/migrations").body["migrations"]
    return [each for each in listed if each["status"] == "running"]


def test_a_live_migration_that_outlives_its_process(tmp_path: Path, sqlite_template: Path) -> None:
    (tmp_path / "kilonova.db").write_bytes(sqlite_template.read_bytes())
    control, before = start(tmp_path)
    control.add_flavor()
    uuid = control.boot(control.admin)["id"]
    body = {"os-migrateLive": {"host": None, "block_migration": "auto"}}
    assert control.admin.post(f"/servers/{uuid}/action", body).status == 202
    wait_until(lambda: migrations(control, uuid), "copying")
    control.process.close()
    told = [each.event_type for each in before.of(Format.VERSIONED)]
    assert told[-2:] == ["instance.live_migration_pre.start", "instance.live_migration_pre.end"]

    control, after = start(tmp_path)
    wait_until(lambda: migrations(control, uuid), "copying again")
    assert control.admin.delete(f"/servers/{uuid}/migrations/{migrations(control, uuid)[0]['id']}").status == 202
    control.settle()
    wait_until(lambda: not control.process.conductor.runner.known, "everything told")
    control.process.close()
    assert [each.event_type.removeprefix("instance.") for each in after.of(Format.VERSIONED)] == [
        "live_migration_abort.start",
        "live_migration_abort.end",
        "live_migration_rollback.start",
        "live_migration_rollback_dest.start",
        "live_migration_rollback_dest.end",
        "live_migration_rollback.end",
    ]
