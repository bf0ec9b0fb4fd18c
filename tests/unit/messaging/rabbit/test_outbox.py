# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from kilonova.messaging.rabbit import outbox as module
from kilonova.messaging.rabbit.outbox import CONFIRMED_WITHIN_S, WINDOW, Outbox
from kilonova.messaging.rabbit.outgoing import OutgoingMessage


class Channel:
    """Notes what a channel of the broker is told. ``breaks_after``: so many messages, like one that is cut."""

    def __init__(self, breaks_after: int = 10**9) -> None:
        self.published: list[str] = []
        self._left = breaks_after

    def basic_publish(self, message: Any, exchange: str, key: str, *, mandatory: bool) -> None:
        assert mandatory
        assert message.properties["user_id"] == "me"
        assert (exchange, key) == ("to", "agent")
        self._left -= 1
        if self._left < 0:
            raise ConnectionResetError
        self.published.append(message.body.decode())


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def outgoing(text: str, **more: Any) -> OutgoingMessage:
    return OutgoingMessage("to", "agent", text.encode(), **more)


def filled(*texts: str) -> Outbox:
    made = Outbox("me", Clock())
    for text in texts:
        made.add(outgoing(text))
    return made


def written(outbox: Outbox) -> list[str]:
    channel = Channel()
    outbox.write(channel, "me")
    return channel.published


def test_what_is_urgent_goes_first_and_each_keeps_its_order() -> None:
    outbox = filled("a", "b")
    outbox.add(outgoing("urgent 1"), urgent=True)
    outbox.add(outgoing("urgent 2"), urgent=True)
    assert written(outbox) == ["urgent 1", "urgent 2", "a", "b"]
    assert len(outbox) == 4
    outbox.confirmed(3, multiple=True)
    outbox.confirmed(4, multiple=False)
    assert len(outbox) == 0


def test_what_was_not_confirmed_goes_again_before_all_else_also_what_broke_halfway() -> None:
    outbox = filled("a", "b", "c", "d")
    with pytest.raises(ConnectionResetError):
        outbox.write(Channel(breaks_after=2), "me")
    outbox.confirmed(1, multiple=False)
    outbox.begin_anew()
    outbox.add(outgoing("urgent"), urgent=True)
    assert written(outbox) == ["b", "c", "urgent", "d"]
    outbox.confirmed(4, multiple=True)
    assert len(outbox) == 0


def test_what_is_not_wanted_any_more_is_not_sent() -> None:
    may_send = True
    outbox = Outbox("me")
    outbox.add(outgoing("a", is_wanted=lambda: may_send))
    assert written(outbox) == ["a"]
    may_send = False
    outbox.begin_anew()
    outbox.add(outgoing("b", is_wanted=lambda: may_send))
    outbox.add(outgoing("c"))
    assert written(outbox) == ["c"]
    assert len(outbox) == 1


def test_so_many_are_under_way_and_one_that_is_never_confirmed_makes_room(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    outbox = Outbox("me", clock)
    for number in range(WINDOW + 2):
        outbox.add(outgoing(str(number)))
    assert len(written(outbox)) == WINDOW
    assert not outbox.can_write
    outbox.expire()
    assert not outbox.can_write
    clock.now += CONFIRMED_WITHIN_S + 1
    outbox.expire()
    assert written(outbox) == [str(WINDOW), str(WINDOW + 1)]
    assert "the broker does not confirm messages to agent" in caplog.text


def test_what_the_broker_refuses_is_dropped_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    outbox = filled("a", "b", "c")
    written(outbox)
    outbox.refused(2, multiple=True)
    outbox.returned(RuntimeError(), "to", "agent", None)
    assert len(outbox) == 1
    assert "the queue of agent is full" in caplog.text
    assert "there is no queue for agent" in caplog.text


def test_a_broker_that_is_away_fills_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 10)
    assert len(filled(*map(str, range(12)))) == 10
