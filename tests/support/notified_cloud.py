# SPDX-License-Identifier: Apache-2.0
"""Control process with four hosts and images whose notifications go to a list."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kilonova.cli.wiring.core import Parts
from kilonova.notifications.message import Format, Message
from support.control import IMAGE, Control, start_control
from support.glance_stand_in import GlanceStandIn, image_cloud
from support.recorded_notifications import RecordingSink
from support.waiting import wait_until

_HOSTS = """
images: [{name: cirros}]
hosts:
  - {name: node1, vcpus: 16, memory_mib: 16384}
  - {name: node2, vcpus: 16, memory_mib: 16384}
  - {name: node3, vcpus: 16, memory_mib: 8192, live_migration_s: 60}
  - {name: node4, vcpus: 16, memory_mib: 8192, live_migration_s: 60}
"""
_MORE = """
[DEFAULT]
reclaim_instance_interval = 0
shelved_offload_time = -1
[notifications]
notification_format = both
notify_on_state_change = vm_and_task_state
"""
SECRET = "correct-horse-battery"
USER_DATA = "I2Nsb3VkLWNvbmZpZwpwYXNzd29yZDogY29ycmVjdC1ob3JzZS1iYXR0ZXJ5"


@dataclass
class World:
    control: Control
    sink: RecordingSink
    glance: GlanceStandIn
    seen: int = 0

    def settle(self) -> None:
        self.control.settle()
        dispatcher = self.control.process.core.notifying.dispatcher
        assert dispatcher is not None
        # The final notification of a workflow follows its commit, but precedes its removal from ``known``.
        wait_until(lambda: not self.control.process.conductor.runner.known, "the last notification of each workflow")
        wait_until(lambda: dispatcher.is_idle, "all notifications to be sent")

    def mark(self) -> None:
        self.settle()
        self.seen = len(self.sink.messages)

    def new(self, wanted: Format = Format.VERSIONED) -> list[Message]:
        """Return the action notifications since the last mark, without updates and scheduler notifications."""
        self.settle()
        return [each for each in self.sink.of(wanted, self.seen) if _is_action(each)]

    def lines(self, wanted: Format = Format.VERSIONED) -> list[str]:
        """Return the same as event type and publisher; HERE stands for this machine's name."""
        here = os.uname().nodename
        return [f"{each.event_type} {each.publisher.replace(here, 'HERE')}" for each in self.new(wanted)]

    def act(self, server: dict[str, Any], **action: Any) -> None:
        answer = self.control.admin.post(f"/servers/{server['id']}/action", action)
        assert answer.status in {200, 202, 204}, answer.body
        self.settle()


def _is_action(message: Message) -> bool:
    event = message.event_type
    return not event.endswith("instance.update") and not event.startswith("scheduler.")


@pytest.fixture(scope="module")
def notified(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("notifications")
    (folder / "kilonova.db").write_bytes(sqlite_template.read_bytes())
    sink = RecordingSink()
    with image_cloud({IMAGE: os.urandom(1000)}) as cloud:
        control = start_control(folder, parts=Parts(sinks=[sink]), scenario=_HOSTS, more=cloud.options + _MORE)
        cloud.application = control.process.application
        control.add_flavor()
        control.add_flavor("2", ram=1024, vcpus=2, disk=2)
        started = World(control, sink, cloud.glance)
        yield started
        control.check()
        control.process.close()


@pytest.fixture
def notified_server(notified: World) -> Iterator[dict[str, Any]]:
    made = notified.control.boot(availability_zone="nova:node1", client=notified.control.admin)
    notified.mark()
    yield made
    notified.control.admin.delete(f"/servers/{made['id']}")
    notified.settle()


def here(action: str, host: str = "node1") -> list[str]:
    return [f"instance.{action}.start nova-compute:{host}", f"instance.{action}.end nova-compute:{host}"]


def names(notified: World, wanted: Format = Format.VERSIONED) -> list[str]:
    return [each.event_type for each in notified.new(wanted)]


def pair(event: str) -> list[str]:
    return [f"{event}.start", f"{event}.end"]
