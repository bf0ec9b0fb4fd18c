# SPDX-License-Identifier: Apache-2.0
"""What the agent of a host keeps in memory of the control plane's answers, and how often it asks."""

import threading
from collections.abc import Callable

import pytest

from kilonova.compute.metadata.answers import _MOST_BYTES, WAITING_AT_ONCE, MetadataAnswers, Source
from kilonova.errors import Unavailable
from kilonova.messaging.local import LocalBus
from kilonova.messaging.messages import (
    Answer,
    AskMetadata,
    GuestMetadata,
    HeartbeatAnswer,
    PasswordPosted,
    PostPassword,
    Question,
)
from kilonova.model.posted_password import PostResult
from support.waiting import wait_until

HERE = Source("net", "10.1.0.9", "fa:16:3e:00:00:01")
FILES = {"openstack/latest/a": b"1", "openstack/latest/b": b"1"}


class Control:
    """Stand-in for the control plane, which knows the guest ``HERE``. ``asked``: the questions."""

    def __init__(self, kept_s: float = 15.0) -> None:
        self.asked: list[Question] = []
        self.now = 0.0
        self.answer: Callable[[Question], Answer] = self.honest
        self.files = FILES
        bus = LocalBus()
        bus.serve_conductor(lambda _: None, lambda question, _: self._note(question))
        self.answers = MetadataAnswers("node1", bus, kept_s, now=lambda: self.now)

    def _note(self, question: Question) -> Answer:
        self.asked.append(question)
        return self.answer(question)

    def honest(self, question: Question) -> Answer:
        if isinstance(question, PostPassword):
            return PasswordPosted(PostResult.STORED)
        assert isinstance(question, AskMetadata)
        known = (question.network_id, question.address, question.mac) == (HERE.network_id, HERE.address, HERE.mac)
        return GuestMetadata.of(self.files) if known else GuestMetadata(found=False)


def test_an_answer_is_kept_for_seconds() -> None:
    control = Control()
    for _ in range(3):
        assert control.answers.files(HERE) == FILES
    assert control.asked == [AskMetadata("node1", HERE.network_id, HERE.address, HERE.mac)]
    control.now = 15.1
    control.answers.files(HERE)
    assert len(control.asked) == 2


def test_guests_are_told_apart_by_network_address_and_mac() -> None:
    control = Control()
    control.answers.files(HERE)
    for other in (Source("other", HERE.address, HERE.mac), Source("net", "10.1.0.8", HERE.mac)):
        assert control.answers.files(other) is None
    assert control.answers.files(Source("net", HERE.address, "fa:16:3e:00:00:02")) is None


def test_that_a_guest_is_unknown_is_kept_for_a_shorter_time() -> None:
    control, stranger = Control(), Source("net", "10.1.0.10")
    for _ in range(3):
        assert control.answers.files(stranger) is None
    assert len(control.asked) == 1
    control.now = 2.1
    control.answers.files(stranger)
    assert len(control.asked) == 2


def test_nothing_is_kept_if_so_configured() -> None:
    control = Control(kept_s=0)
    assert [control.answers.files(HERE) for _ in range(2)] == [FILES, FILES]
    assert len(control.asked) == 2


def test_a_failure_is_not_kept() -> None:
    control = Control()

    def fail(_: Question) -> Answer:
        raise Unavailable("The database does not answer.")

    control.answer = fail
    with pytest.raises(Unavailable):
        control.answers.files(HERE)
    control.answer = lambda _: HeartbeatAnswer("", 0, counts=True)
    with pytest.raises(Unavailable, match="unexpected type"):
        control.answers.files(HERE)
    with pytest.raises(Unavailable, match="unexpected type"):
        control.answers.post_password(HERE, "abc=")
    control.answer = control.honest
    assert control.answers.files(HERE) == FILES


def test_a_posted_password_is_passed_on_and_seen_at_once() -> None:
    control = Control()
    control.answers.files(HERE)
    assert control.answers.post_password(HERE, "abc=") is PostResult.STORED
    assert control.asked[-1] == PostPassword("node1", HERE.network_id, HERE.address, HERE.mac, "abc=")
    control.answers.files(HERE)
    assert len(control.asked) == 3


def test_memory_is_limited() -> None:
    control = Control()
    control.files = {"openstack/latest/a": b"x" * (_MOST_BYTES // 3)}
    control.answer = lambda _: GuestMetadata.of(control.files)
    sources = [Source("net", f"10.1.0.{number}") for number in range(4)]
    for source in sources:
        control.answers.files(source)
    assert len(control.answers._known) == 2
    control.files = {"openstack/latest/a": b"x" * (_MOST_BYTES + 1)}
    assert control.answers.files(HERE) == control.files
    assert HERE not in control.answers._known


def test_requests_of_one_guest_share_a_question_and_few_requests_wait() -> None:
    control, go = Control(), threading.Event()

    def wait(question: Question) -> Answer:
        go.wait(10)
        return control.honest(question)

    control.answer = wait
    found: list[object] = []
    threads = [
        threading.Thread(target=lambda: found.append(control.answers.files(HERE))) for _ in range(WAITING_AT_ONCE)
    ]
    for thread in threads:
        thread.start()
    wait_until(lambda: control.answers._room._value == 0, "all requests to wait")
    with pytest.raises(Unavailable, match="Too many requests"):
        control.answers.files(Source("net", "10.1.0.10"))
    go.set()
    for thread in threads:
        thread.join()
    assert found == [FILES] * WAITING_AT_ONCE
    assert len(control.asked) == 1
    assert control.answers.files(Source("net", "10.1.0.10")) is None


def test_a_guest_that_forges_addresses_causes_few_questions() -> None:
    control = Control()
    refused = 0
    for number in range(1000):
        try:
            control.answers.files(Source("net", f"10.1.{number // 250}.{number % 250}"))
        except Unavailable:
            refused += 1
    assert len(control.asked) == 200
    assert refused == 800
    control.now = 1.0
    assert control.answers.files(Source("other", "10.1.0.9")) is None
    assert control.answers.files(HERE) == FILES
