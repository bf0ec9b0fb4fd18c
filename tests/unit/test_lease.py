# SPDX-License-Identifier: Apache-2.0
from datetime import timedelta

from kilonova.lease import Lease


class Process:
    """A process with a lease of 60 seconds, and a clock that the test advances."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.lease = Lease(timedelta(seconds=60), clock=lambda: self.now_s)


def test_a_lease_is_held_from_the_first_heartbeat_until_it_expires() -> None:
    process = Process()
    assert not process.lease.is_held
    process.lease.renew(process.lease.now())
    process.now_s += 59.9
    assert process.lease.is_held
    process.now_s += 0.1
    assert not process.lease.is_held


def test_a_slow_heartbeat_counts_from_when_it_was_sent() -> None:
    process = Process()
    sent = process.lease.now()
    process.now_s += 61
    process.lease.renew(sent)
    assert not process.lease.is_held


def test_an_answer_may_change_the_duration() -> None:
    process = Process()
    process.lease.renew(process.lease.now(), timedelta(seconds=8))
    assert process.lease.renewal_s == 2
    process.now_s += 8
    assert not process.lease.is_held


def test_a_process_that_was_declared_dead_has_no_lease_until_its_next_heartbeat() -> None:
    process = Process()
    process.lease.renew(process.lease.now())
    process.lease.lapse()
    assert not process.lease.is_held
    process.lease.renew(process.lease.now())
    assert process.lease.is_held
