# SPDX-License-Identifier: Apache-2.0
"""Cold moves between simulated hosts: every step, repeated, killed after, undone; also on one and the same host."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kilonova.messaging.messages import (
    AbandonMove,
    AgentMessage,
    ConfirmMove,
    DestroyGuest,
    FaultOf,
    FinishMove,
    MoveAway,
    ReturnHome,
    SpawnGuest,
    StartGuest,
    StopGuest,
)
from kilonova.model.instance import PowerState
from support.one_host import OneHost, guest, new_step

OLD, NEW = guest(memory_mib=512), guest(memory_mib=2048)
RUNNING, SHUTDOWN, NOSTATE = PowerState.RUNNING, PowerState.SHUTDOWN, PowerState.NOSTATE


class TwoHosts:
    """A server that moves from ``source`` to ``destination``, which may be the same host.

    ``repeats``: how often each message is sent, as another step. ``killed``: whether the agents die after each.
    """

    def __init__(self, folder: Path, *, same: bool, repeats: int = 1, killed: bool = False) -> None:
        self.folder, self.repeats, self.killed = folder, repeats, killed
        self.names = ("node1", "node1" if same else "node2")
        self.start()
        self.to_source(lambda: SpawnGuest(new_step(), OLD))

    def start(self) -> None:
        hosts = {name: OneHost(self.folder, name) for name in self.names}
        self.source, self.destination = (hosts[name] for name in self.names)

    def to_source(self, message: Callable[[], AgentMessage]) -> PowerState:
        return self.send(lambda: self.source, message)

    def to_destination(self, message: Callable[[], AgentMessage]) -> PowerState:
        return self.send(lambda: self.destination, message)

    def send(self, host: Callable[[], OneHost], message: Callable[[], AgentMessage]) -> PowerState:
        states = set()
        for _ in range(self.repeats):
            reply = host().do(message())
            assert reply.error is None
            states.add(reply.power_state)
            if self.killed:
                self.start()
        (state,) = states
        return state

    def move_away(self) -> PowerState:
        return self.to_source(lambda: MoveAway(new_step(), "a", self.names[1]))

    def finish(self, *, power_on: bool = True) -> PowerState:
        return self.to_destination(lambda: FinishMove(new_step(), NEW, self.names[0], power_on))

    def confirm(self) -> PowerState:
        return self.to_source(lambda: ConfirmMove(new_step(), "a"))

    def abandon(self) -> PowerState:
        return self.to_destination(lambda: AbandonMove(new_step(), "a"))

    def return_home(self, *, power_on: bool = True) -> PowerState:
        return self.to_source(lambda: ReturnHome(new_step(), OLD, power_on))


@pytest.fixture(params=[(1, False), (2, False), (2, True)], ids=["once", "twice", "twice and killed"])
def how(request: pytest.FixtureRequest) -> dict[str, int]:
    return {"repeats": request.param[0], "killed": request.param[1]}


@pytest.mark.parametrize("power_on", [True, False])
def test_a_move_to_another_host_that_is_confirmed(tmp_path: Path, how: dict[str, int], power_on: bool) -> None:
    hosts = TwoHosts(tmp_path, same=False, **how)
    there = RUNNING if power_on else SHUTDOWN
    assert hosts.move_away() is SHUTDOWN
    assert hosts.finish(power_on=power_on) is there
    assert hosts.source.driver.list_guests() == {"a": SHUTDOWN}
    assert hosts.confirm() is NOSTATE
    assert hosts.source.driver.list_guests() == {}
    assert hosts.destination.driver.list_guests() == {"a": there}
    assert hosts.destination.size_of() == 2048


@pytest.mark.parametrize("power_on", [True, False])
def test_a_move_to_another_host_that_is_reverted(tmp_path: Path, how: dict[str, int], power_on: bool) -> None:
    hosts = TwoHosts(tmp_path, same=False, **how)
    hosts.move_away()
    hosts.finish()
    assert hosts.abandon() is NOSTATE
    back = RUNNING if power_on else SHUTDOWN
    assert hosts.return_home(power_on=power_on) is back
    assert hosts.source.driver.list_guests() == {"a": back}
    assert hosts.source.size_of() == 512
    assert hosts.destination.driver.list_guests() == {}


def test_a_resize_on_the_same_host_that_is_confirmed(tmp_path: Path, how: dict[str, int]) -> None:
    hosts = TwoHosts(tmp_path, same=True, **how)
    assert hosts.move_away() is SHUTDOWN
    assert hosts.finish() is RUNNING
    assert hosts.source.driver.list_guests() == {"a": RUNNING}
    assert hosts.confirm() is RUNNING
    assert hosts.source.driver.list_guests() == {"a": RUNNING}
    assert hosts.source.size_of() == 2048


def test_a_resize_on_the_same_host_that_is_reverted(tmp_path: Path, how: dict[str, int]) -> None:
    hosts = TwoHosts(tmp_path, same=True, **how)
    hosts.move_away()
    hosts.finish()
    assert hosts.abandon() is SHUTDOWN
    assert hosts.return_home() is RUNNING
    assert hosts.source.driver.list_guests() == {"a": RUNNING}
    assert hosts.source.size_of() == 512


def test_several_resizes_on_the_same_host_one_after_the_other(tmp_path: Path) -> None:
    hosts = TwoHosts(tmp_path, same=True)
    for _ in range(2):
        hosts.move_away()
        hosts.finish()
        hosts.confirm()
    hosts.move_away()
    hosts.finish()
    hosts.abandon()
    hosts.return_home()
    hosts.abandon()  # late: the guest that is home again is not that of the move, though another move made it
    assert hosts.source.driver.list_guests() == {"a": RUNNING}
    assert hosts.source.size_of() == 2048


@pytest.mark.parametrize("same", [True, False])
def test_undoing_what_was_never_done_changes_nothing(tmp_path: Path, same: bool) -> None:
    hosts = TwoHosts(tmp_path, same=same)
    hosts.abandon()
    hosts.confirm()
    assert hosts.return_home() is RUNNING
    assert hosts.source.driver.list_guests() == {"a": RUNNING}


def test_a_late_abandon_does_not_take_the_guest_that_is_home_again(tmp_path: Path) -> None:
    hosts = TwoHosts(tmp_path, same=True)
    hosts.move_away()
    hosts.finish()
    hosts.abandon()
    hosts.return_home()
    hosts.abandon()
    assert hosts.source.driver.list_guests() == {"a": RUNNING}


def test_a_guest_that_was_powered_off_but_not_kept_is_started_again(tmp_path: Path) -> None:
    hosts = TwoHosts(tmp_path, same=False)
    hosts.to_source(lambda: StopGuest(new_step(), "a"))
    assert hosts.return_home(power_on=True) is RUNNING


@pytest.mark.parametrize("same", [True, False])
def test_destroying_drops_what_is_kept_too(tmp_path: Path, same: bool) -> None:
    hosts = TwoHosts(tmp_path, same=same)
    hosts.move_away()
    if same:
        hosts.finish()
    hosts.to_source(lambda: DestroyGuest(new_step(), "a"))
    assert OneHost(tmp_path).driver.list_guests() == {}


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (FinishMove(new_step(), guest("gone"), "node1", power_on=True), "Guest gone does not exist."),
        (MoveAway(new_step(), "gone", "node2"), "Guest gone does not exist."),
        (ReturnHome(new_step(), guest("gone"), power_on=True), "Guest gone does not exist."),
        (FinishMove(new_step(), NEW, "node2", power_on=True), "Guest a already exists and was not created by a move."),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, message: AgentMessage, error: str) -> None:
    host = TwoHosts(tmp_path, same=True).source
    assert host.do(message).error == error
    assert host.driver.list_guests() == {"a": RUNNING}


def test_a_guest_that_is_only_kept_is_not_started(tmp_path: Path) -> None:
    hosts = TwoHosts(tmp_path, same=False)
    hosts.move_away()
    assert hosts.source.do(StartGuest(new_step(), "a")).error == "Guest a does not exist."


def test_a_guest_kept_for_an_earlier_move_is_not_lost_to_a_new_one(tmp_path: Path) -> None:
    hosts = TwoHosts(tmp_path, same=False)
    hosts.move_away()
    host = hosts.source
    host.do(SpawnGuest(new_step(), OLD))
    for destination in ("node1", "node2"):
        assert host.do(MoveAway(new_step(), "a", destination)).error == "Guest a is still kept from an earlier move."
    assert host.do(ReturnHome(new_step(), OLD, power_on=True)).error is not None
    assert host.driver.list_guests() == {"a": RUNNING}


def test_a_destination_that_fails_has_nothing_and_the_guest_returns(tmp_path: Path) -> None:
    source, destination = OneHost(tmp_path), OneHost(tmp_path, "node2", failing_moves=1)
    source.do(SpawnGuest(new_step(), OLD))
    source.do(MoveAway(new_step(), "a", "node2"))
    failed = destination.do(FinishMove(new_step(), NEW, "node1", power_on=True))
    assert (failed.error, failed.fault_of) == ("Simulated failure to move guest a.", FaultOf.HOST)
    assert destination.driver.list_guests() == {}
    assert source.do(ReturnHome(new_step(), OLD, power_on=True)).power_state is RUNNING
    assert destination.do(FinishMove(new_step(), NEW, "node1", power_on=True)).error is None


def test_a_destination_that_lacks_a_device_model_says_so(tmp_path: Path) -> None:
    destination = OneHost(tmp_path, "node2", models={"hw_vif_model": ("virtio",)})
    asked = guest(image_properties={"hw_vif_model": "e1000"})
    reply = destination.do(FinishMove(new_step(), asked, "node1", power_on=True))
    assert (reply.error, reply.fault_of) == ("The hypervisor does not support hw_vif_model=e1000.", FaultOf.REQUEST)


def test_moves_take_the_time_that_the_scenario_says(tmp_path: Path) -> None:
    slept: list[float] = []
    host = OneHost(tmp_path, move_delay_s=3)
    host.driver.hypervisor.sleep = slept.append
    host.do(SpawnGuest(new_step(), OLD))
    host.do(MoveAway(new_step(), "a", "node1"))
    host.do(FinishMove(new_step(), NEW, "node1", power_on=True))
    assert slept == [3, 3]
