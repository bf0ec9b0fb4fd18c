# SPDX-License-Identifier: Apache-2.0
"""Whoever tells never waits, and what cannot be sent is counted."""

import logging
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kilonova.notifications.dispatcher import Counters, Dispatcher
from kilonova.notifications.events import FlavorActed
from kilonova.notifications.message import Format, Message
from kilonova.notifications.message_builder import MessageBuilder
from kilonova.notifications.sinks import FileSink
from support.notified_events import WHO, WORDING, resource_event
from support.recorded_notifications import RecordingSink
from support.waiting import wait_until


@dataclass
class Count:
    sent: int = 0
    lost: int = 0

    def counters(self) -> Counters:
        return Counters(self._send, self._lose)

    def _send(self) -> None:
        self.sent += 1

    def _lose(self) -> None:
        self.lost += 1


@dataclass
class StuckSink(RecordingSink):
    """A broker that is away until it is let go."""

    back: threading.Event = field(default_factory=threading.Event)

    def send(self, message: Message) -> None:
        self.back.wait()
        super().send(message)


class BrokenSink(RecordingSink):
    def send(self, message: Message) -> None:
        raise OSError(message.event_type)


def test_a_broker_that_is_away_delays_nobody_and_loses_what_does_not_fit(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    sink, count = StuckSink(), Count()
    dispatcher = Dispatcher(WORDING, [sink], queue_size=10, counters=count.counters())
    dispatcher.tell(resource_event("first"), WHO)
    wait_until(lambda: dispatcher.waiting == 0, "the first is being sent")
    for number in range(2500):  # whoever waited for the broker would wait for ever
        dispatcher.tell(resource_event(f"f{number}"), WHO)
    assert count.lost == 2490
    said = [record.getMessage() for record in caplog.records]
    assert said == ["Notification lost: the queue is full (10 events)"]
    sink.back.set()
    wait_until(lambda: dispatcher.is_idle, "sent")
    names = [message.payload["nova_object.data"]["name"] for message in sink.messages]
    assert names == ["first", *(f"f{number}" for number in range(10))]
    assert (count.sent, len(sink.messages)) == (11, 11)
    dispatcher.close()


def test_one_place_that_fails_keeps_nothing_from_the_others() -> None:
    good, count = RecordingSink(), Count()
    dispatcher = Dispatcher(WORDING, [BrokenSink(), good], queue_size=10, counters=count.counters())
    dispatcher.tell(resource_event(), WHO)
    dispatcher.close()
    assert ([each.event_type for each in good.messages], count.sent, count.lost) == (["flavor.create"], 1, 1)


def test_what_nobody_took_does_not_count_as_sent() -> None:
    count = Count()
    dispatcher = Dispatcher(WORDING, [BrokenSink()], queue_size=10, counters=count.counters())
    dispatcher.tell(resource_event(), WHO)
    dispatcher.close()
    assert (count.sent, count.lost) == (0, 1)


def test_a_full_disk_loses_what_it_cannot_take_and_that_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    count = Count()
    dispatcher = Dispatcher(WORDING, [FileSink(Path("/dev/full"), "INFO")], queue_size=10, counters=count.counters())
    dispatcher.tell(resource_event(), WHO)
    dispatcher.close()
    assert (count.sent, count.lost) == (0, 1)
    assert "Notification lost: UnsentError: [Errno 28] No space left on device" in caplog.text


def test_what_cannot_be_worded_is_logged_and_the_next_is_sent(caplog: pytest.LogCaptureFixture) -> None:
    good, count = RecordingSink(), Count()
    dispatcher = Dispatcher(WORDING, [good], queue_size=10, counters=count.counters())
    dispatcher.tell(FlavorActed("create", None))  # type: ignore[arg-type]
    dispatcher.tell(resource_event(), WHO)
    dispatcher.close()
    assert (len(good.messages), count.sent, count.lost) == (1, 1, 1)
    assert "Building a notification failed" in caplog.text


def test_an_end_sends_what_waits() -> None:
    sink = RecordingSink()
    dispatcher = Dispatcher(WORDING, [sink], queue_size=1000)
    for number in range(500):
        dispatcher.tell(resource_event(f"f{number}"))
    dispatcher.close()
    assert len(sink.messages) == 500


def test_only_the_wanted_format_is_sent() -> None:
    for wanted in Format:
        messages = list(MessageBuilder("here", frozenset({wanted})).messages(resource_event(), WHO))
        assert [each.format for each in messages] == ([Format.VERSIONED] if wanted is Format.VERSIONED else [])
