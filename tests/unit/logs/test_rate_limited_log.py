# SPDX-License-Identifier: Apache-2.0
"""Rate limit of repeated log lines."""

import logging

import pytest

from kilonova.logs.rate_limited_log import RateLimitedLog


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_complaint_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    complaints = RateLimitedLog(logging.getLogger("kilonova.test"), clock)
    for _ in range(1000):
        complaints.complain("one", "It hurts.")
    complaints.complain("another", "It itches.")
    clock.now += 61
    complaints.complain("one", "It hurts.")
    assert caplog.messages == ["It hurts.", "It itches.", "It hurts. (999 more like it since the last time)"]
