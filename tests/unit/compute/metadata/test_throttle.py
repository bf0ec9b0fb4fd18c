# SPDX-License-Identifier: Apache-2.0
from kilonova.compute.metadata.throttle import Throttle


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_each_client_has_a_burst_and_then_a_rate() -> None:
    clock = Clock()
    throttle = Throttle(2.0, 3, now=clock)
    assert [throttle.admits("a") for _ in range(4)] == [True, True, True, False]
    assert throttle.admits("b")
    clock.now = 1.0
    assert [throttle.admits("a") for _ in range(3)] == [True, True, False]
    clock.now = 1000.0
    assert [throttle.admits("a") for _ in range(4)] == [True, True, True, False]


def test_only_the_latest_clients_are_remembered() -> None:
    throttle = Throttle(0.0, 1, most=2, now=Clock())
    for client in ("a", "b", "c"):
        assert throttle.admits(client)
    assert not throttle.admits("c")
    assert not throttle.admits("b")
    assert throttle.admits("a")
    assert len(throttle._left) == 2
