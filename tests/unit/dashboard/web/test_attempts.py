# SPDX-License-Identifier: Apache-2.0
from kilonova.dashboard.web.attempts import Attempts
from support.dashboards import FakeClock


def test_an_account_waits_after_some_failures(clock: FakeClock) -> None:
    attempts = Attempts(3, 300.0, clock)
    for _ in range(3):
        assert attempts.wait_s("ada", "192.0.2.1") == 0
        attempts.fail("ada", "192.0.2.1")
        clock.now += 10
    assert attempts.wait_s("ada", "198.51.100.7") == 270
    assert attempts.wait_s("eve", "192.0.2.1") == 0
    clock.now += 271
    assert attempts.wait_s("ada", "192.0.2.1") == 0


def test_an_address_waits_after_failures_of_many_accounts(clock: FakeClock) -> None:
    attempts = Attempts(3, 300.0, clock)
    for number in range(12):
        assert attempts.wait_s(f"user{number}", "192.0.2.1") == 0
        attempts.fail(f"user{number}", "192.0.2.1")
    assert attempts.wait_s("ada", "192.0.2.1") > 0
    assert attempts.wait_s("ada", "192.0.2.2") == 0


def test_a_success_forgets_the_failures_of_the_account(clock: FakeClock) -> None:
    attempts = Attempts(3, 300.0, clock)
    for _ in range(3):
        attempts.fail("ada", "192.0.2.1")
    attempts.succeed("ada")
    assert attempts.wait_s("ada", "192.0.2.1") == 0


def test_ten_thousand_attempts_take_bounded_memory(clock: FakeClock) -> None:
    attempts = Attempts(3, 300.0, clock)
    for number in range(20_000):
        attempts.fail(f"user{number}", f"address{number}")
    assert len(vars(attempts)["_failures"]) <= 10_000
