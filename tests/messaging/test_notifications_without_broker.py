# SPDX-License-Identifier: Apache-2.0
"""A cloud whose notifications go to a broker that dies, freezes or is not there: nobody waits, none comes twice.

``make broker-faults`` leaves the broker frozen for longer than the heartbeats of oslo.messaging take by default.
"""

import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import amqp
import pytest

from kilonova.notifications.dispatcher import Dispatcher
from support.broker import NOTIFIER, Broker
from support.control import Control, NewControl, new_controls
from support.proxies import Proxy
from support.samples import IS_WHOLE
from support.waiting import wait_until

#: A server is built, rebooted or deleted within this time, with a broker or without.
_AT_ONCE_S = 5.0
_HEARTBEAT_S = 60 if IS_WHOLE else 2
_FROZEN_S = 90.0 if IS_WHOLE else 5.0
#: Few enough to be full while the broker is away.
_QUEUE_SIZE = 12
_TOPIC = "notifications.of-faults"


@pytest.fixture
def new_control(sqlite_template: Path, tmp_path: Path) -> Iterator[NewControl]:
    with new_controls(sqlite_template, tmp_path) as start:
        yield start


def options(port: int) -> str:
    return (
        "[DEFAULT]\ncontrol_exchange = nova-lasting\n"
        f"[oslo_messaging_notifications]\ndriver = messagingv2\ntopics = {_TOPIC}\n"
        f"transport_url = rabbit://{NOTIFIER}:{NOTIFIER}@localhost:{port}/\n"
        f"[oslo_messaging_rabbit]\namqp_durable_queues = true\nheartbeat_timeout_threshold = {_HEARTBEAT_S}\n"
        f"[notifications]\nqueue_size = {_QUEUE_SIZE}\n"
    )


def dispatcher_of(control: Control) -> Dispatcher:
    dispatcher = control.process.core.notifying.dispatcher
    assert dispatcher is not None
    return dispatcher


def told(broker: Broker) -> list[tuple[str, str, str]]:
    """What is in the queue, which is emptied: event, request and server."""
    with amqp.Connection(f"localhost:{broker.server.port}", userid=NOTIFIER, password=NOTIFIER) as connection:
        channel = connection.channel()
        found = []
        while (message := channel.basic_get(f"{_TOPIC}.info", no_ack=True)) is not None:
            said: dict[str, Any] = json.loads(json.loads(message.body)["oslo.message"])
            server = said["payload"].get("instance_id", "")
            found.append((said["event_type"], said["_context_request_id"], server))
        return found


def counted(control: Control, what: str) -> int:
    (line,) = [
        line
        for line in control.process.core.metrics.text()[0].decode().splitlines()
        if line.startswith(f"kilonova_notifications_{what}_total")
    ]
    return int(float(line.split()[-1]))


def work(control: Control, servers: int) -> None:
    """Build, reboot and delete servers, each at once."""
    for _ in range(servers):
        began = time.monotonic()
        server = control.boot(control.admin)
        assert server["status"] == "ACTIVE"
        path = f"/servers/{server['id']}"
        assert control.admin.post(f"{path}/action", {"reboot": {"type": "HARD"}}).status == 202
        control.settle()
        assert control.admin.delete(path).status == 204
        control.settle()
        assert time.monotonic() - began < 3 * _AT_ONCE_S


def end(control: Control) -> float:
    began = time.monotonic()
    control.process.close()
    return time.monotonic() - began


@contextmanager
def killed(broker: Broker) -> Iterator[None]:
    broker.server.kill()
    yield
    broker.start()


@contextmanager
def frozen(broker: Broker) -> Iterator[None]:
    with broker.frozen():
        since = time.monotonic()
        yield
        time.sleep(max(0.0, since + _FROZEN_S - time.monotonic()))


@contextmanager
def restarted(broker: Broker) -> Iterator[None]:
    broker.server.stop()
    yield
    broker.start()


Fault = Callable[[Broker], AbstractContextManager[None]]


@pytest.mark.slow
@pytest.mark.parametrize("fault", [killed, frozen, restarted] if IS_WHOLE else [killed, frozen])
def test_nobody_waits_and_none_comes_twice(
    broker: Broker, new_control: NewControl, caplog: pytest.LogCaptureFixture, fault: Fault
) -> None:
    caplog.set_level(logging.INFO)
    control = new_control(more=options(broker.server.port))
    dispatcher = dispatcher_of(control)
    work(control, 1)
    wait_until(lambda: dispatcher.is_idle, "sent before")
    with fault(broker):
        work(control, 4)
        assert dispatcher.waiting <= _QUEUE_SIZE
        assert counted(control, "lost") > 0
    wait_until(lambda: dispatcher.is_idle, "what waited is sent", at_most_s=60)
    work(control, 1)
    wait_until(lambda: dispatcher.is_idle, "sent again")
    there = told(broker)
    assert [each for each, count in Counter(there).items() if count > 1] == []
    sent, lost = counted(control, "sent"), counted(control, "lost")
    # One that was on its way counts as lost, whether the broker took it or not.
    assert sent <= len(there) <= sent + lost
    assert {event for event, _, _ in there[-10:]} >= {"compute.instance.create.end", "compute.instance.delete.end"}
    lines = [each.getMessage() for each in caplog.records if each.levelno >= logging.INFO]
    lines = [line for line in lines if "otification" in line or "AMQP" in line]
    assert len(lines) <= 8, lines
    assert any(f"Notification lost: the queue is full ({_QUEUE_SIZE} events)" in line for line in lines)
    assert end(control) < _AT_ONCE_S


@pytest.mark.slow
def test_a_broker_that_is_away_at_the_start_gets_what_waits_and_holds_up_no_end(
    broker: Broker, new_control: NewControl
) -> None:
    proxy = Proxy(broker.server.port)
    proxy.refuses = True
    control = new_control(more=options(proxy.port))
    dispatcher = dispatcher_of(control)
    server = control.boot(control.admin)
    assert (counted(control, "sent"), dispatcher.is_idle) == (0, False)
    proxy.refuses = False
    wait_until(lambda: dispatcher.is_idle, "what waited is sent", at_most_s=30)
    assert ("compute.instance.create.end", server["id"]) in {(event, uuid) for event, _, uuid in told(broker)}
    proxy.stall()
    control.boot(control.admin)
    assert end(control) < 2 * _AT_ONCE_S
    proxy.go_on()
    proxy.close()
