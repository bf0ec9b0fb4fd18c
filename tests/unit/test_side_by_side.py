# SPDX-License-Identifier: Apache-2.0
import fcntl
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.side_by_side import Turns, pytest_make_parametrize_id, unit_of
from support.waiting import wait_until

TESTS = Path(__file__).parents[1]


@pytest.fixture
def turns() -> Iterator[Turns]:
    made = Turns(uuid.uuid4().hex)
    yield made
    made.forget()
    assert not any(file.exists() for file in made.files)


@pytest.mark.parametrize(
    ("module", "unit"),
    [
        ("tests/api/test_access.py", "Keystone"),
        ("tests/api/compute/test_quota_limits_of_keystone.py", "Keystone"),
        ("tests/unit/messaging/test_bus_contract.py", "RabbitMQ"),
        ("tests/guests/test_ovn.py", "external network"),
        ("tests/e2e/test_quota_commands.py", "cloud of zones"),
        ("tests/e2e/test_every_nova_verb.py", "tests/e2e/test_every_nova_verb.py"),
        ("tests/api/compute/test_flavors.py", "tests/api/compute/test_flavors.py"),
    ],
)
def test_modules_go_together_by_what_they_need(module: str, unit: str) -> None:
    assert unit_of(TESTS.parent, module) == unit


def test_a_fresh_uuid_does_not_change_the_name_of_a_test() -> None:
    assert pytest_make_parametrize_id(f"member_of=!{uuid.uuid4()}&a=b") == "member_of=!uuid&a=b"
    assert pytest_make_parametrize_id("b") is None
    assert pytest_make_parametrize_id(3) is None


def test_others_run_side_by_side(turns: Turns) -> None:
    together = threading.Barrier(2)

    def run() -> None:
        with turns.taken(alone=False):
            together.wait(10)

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(run) for _ in range(2)]:
            done.result()


def test_who_runs_alone_waits_for_the_others_and_lets_none_begin(turns: Turns) -> None:
    running: list[str] = []
    began: list[str] = []

    def run(name: str, *, alone: bool) -> None:
        with turns.taken(alone=alone):
            began.append(name)
            running.append(name)
            assert not alone or running == [name]
            running.remove(name)

    with ThreadPoolExecutor(3) as pool:
        with turns.taken(alone=False):
            alone = pool.submit(run, "alone", alone=True)
            wait_until(lambda: is_shut(turns), "the gate is shut")
            later = [pool.submit(run, f"later {number}", alone=False) for number in range(2)]
            assert began == []
        for done in (alone, *later):
            done.result(10)
    assert began[0] == "alone"


def is_shut(turns: Turns) -> bool:
    with turns.files[0].open("w") as gate:
        try:
            fcntl.flock(gate, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False
