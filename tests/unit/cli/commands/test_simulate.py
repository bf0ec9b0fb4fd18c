# SPDX-License-Identifier: Apache-2.0
"""What `kilonova simulate` does to the file of a host, the driver that has it open notices."""

import threading
from pathlib import Path

import pytest

from kilonova.cli.main import main
from kilonova.compute.virt.fake import FakeDriver
from kilonova.model.instance import PowerState
from support.cell import PLAIN, host
from support.one_host import guest


@pytest.fixture
def driver(tmp_path: Path) -> FakeDriver:
    driver = FakeDriver(host("rack/1"), tmp_path / "rack%2F1.json", PLAIN)
    for uuid in ("a", "b"):
        driver.spawn(guest(uuid))
    return driver


def simulate(tmp_path: Path, *words: str) -> int:
    return main(["simulate", *words, "--state-dir", str(tmp_path)])


@pytest.mark.parametrize(
    ("what", "state"),
    [
        ("stop", PowerState.SHUTDOWN),
        ("pause", PowerState.PAUSED),
        ("crash", PowerState.CRASHED),
        ("remove", PowerState.NOSTATE),
    ],
)
def test_the_driver_sees_what_happens_to_a_guest(
    driver: FakeDriver, tmp_path: Path, what: str, state: PowerState
) -> None:
    assert driver.changed_guests() == {}
    assert simulate(tmp_path, what, "rack/1", "a") == 0
    assert driver.changed_guests() == {"a": state}
    assert driver.changed_guests() == {}, "each change is told once"
    assert driver.list_guests().get("a", PowerState.NOSTATE) is state
    assert driver.list_guests()["b"] is PowerState.RUNNING
    assert FakeDriver(host("rack/1"), tmp_path / "rack%2F1.json", PLAIN).list_guests() == driver.list_guests()


def test_what_the_driver_does_itself_is_no_change(driver: FakeDriver) -> None:
    driver.stop("a")
    driver.destroy("b")
    assert driver.changed_guests() == {}


def test_a_power_cut_turns_every_guest_off(driver: FakeDriver, tmp_path: Path) -> None:
    driver.stop("b")
    assert simulate(tmp_path, "power-loss", "rack/1") == 0
    assert driver.list_guests() == dict.fromkeys("ab", PowerState.SHUTDOWN)
    assert driver.changed_guests() == {"a": PowerState.SHUTDOWN}
    assert simulate(tmp_path, "start", "rack/1", "a") == 0
    assert driver.changed_guests() == {"a": PowerState.RUNNING}


def test_guests_are_listed(driver: FakeDriver, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    driver.stop("b")
    assert simulate(tmp_path, "guests", "rack/1") == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()[-2:]] == [["a", "running"], ["b", "shutdown"]]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (
            ("stop", "rack/1", "c"),
            "kilonova: Host rack/1 has no guest c: `kilonova simulate guests rack/1` ",
        ),
        (("stop", "rack2", "a"), "kilonova: No simulated host rack2 has guests in "),
        (("power-loss", "../rack"), "kilonova: No simulated host ../rack has guests in "),
    ],
)
def test_bad_input_is_one_line(
    driver: FakeDriver, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], complaint: str
) -> None:
    before = driver.list_guests()
    assert simulate(tmp_path, *words) == 2
    printed = capsys.readouterr().err
    assert printed.startswith(complaint)
    assert printed.count("\n") == 1
    assert driver.list_guests() == before


def test_nothing_is_lost_when_both_change_the_file(driver: FakeDriver, tmp_path: Path) -> None:
    """An agent makes guests while somebody stops others; every change is there in the end."""
    made = [f"g{number}" for number in range(60)]

    def interfere() -> None:
        for what in ("stop", "start") * 15:
            simulate(tmp_path, what, "rack/1", "a")

    outside = threading.Thread(target=interfere)
    outside.start()
    for uuid in made:
        driver.spawn(guest(uuid))
    outside.join()
    assert set(driver.list_guests()) == {"a", "b", *made}
    assert simulate(tmp_path, "stop", "rack/1", "a") == 0
    assert driver.list_guests()["a"] is PowerState.SHUTDOWN
