# SPDX-License-Identifier: Apache-2.0
"""The file sink, and the context of oslo.messaging."""

import json
from pathlib import Path

from kilonova.notifications.dispatcher import Dispatcher
from kilonova.notifications.sinks import FileSink, context_of
from support.notified_events import WHO, WORDING, resource_event


def test_a_file_has_a_line_for_each_that_only_its_owner_can_read(tmp_path: Path) -> None:
    path = tmp_path / "notifications.log"
    dispatcher = Dispatcher(WORDING, [FileSink(path, "WARN")], queue_size=10)
    dispatcher.tell(resource_event("a\nb"), WHO)
    dispatcher.close()
    (line,) = path.read_text().splitlines()
    said = json.loads(line)
    assert (said["event_type"], said["publisher_id"], said["priority"]) == ("flavor.create", "nova-api:here", "WARN")
    assert (said["payload"]["nova_object.data"]["name"], said["_context_request_id"]) == ("a\nb", "req-1")
    assert path.stat().st_mode & 0o777 == 0o600


def test_who_asked_is_told_without_a_token() -> None:
    assert context_of(WHO) == {"request_id": "req-1", "user_id": "alice", "project_id": "wonder"}
    assert context_of(None) == {"request_id": None, "user_id": None, "project_id": None}
