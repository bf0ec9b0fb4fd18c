# SPDX-License-Identifier: Apache-2.0
"""Guests that a returning host takes back: one that cannot be taken back keeps nothing else from starting."""

from pathlib import Path

import pytest

from kilonova.compute.virt.base import AgentStopsError
from kilonova.errors import DriverError
from kilonova.messaging.messages import PendingRollback, SpawnGuest
from kilonova.model.instance import GuestSpec, PowerState
from support.one_host import OneHost, guest, new_step


def broken_host(folder: Path, error: Exception) -> OneHost:
    """A host with guests ``a`` and ``b``, of which ``a`` cannot be taken back."""
    host = OneHost(folder)
    for uuid in ("a", "b"):
        host.do(SpawnGuest(new_step(), guest(uuid)))
    take_back = host.driver.return_home

    def fail(spec: GuestSpec, *, power_on: bool) -> PowerState:
        if spec.uuid == "a":
            raise error
        return take_back(spec, power_on=power_on)

    host.driver.return_home = fail  # type: ignore[method-assign]
    return host


def due(uuid: str) -> PendingRollback:
    return PendingRollback(new_step(), guest(uuid), power_on=True)


@pytest.mark.parametrize(
    ("error", "said", "details"),
    [
        (DriverError("The disk is gone."), "The disk is gone.", ""),
        (OSError("/somewhere: no such file"), "The hypervisor driver failed.", "OSError: /somewhere: no such file"),
    ],
)
def test_the_others_are_taken_back_and_the_fault_is_told(
    tmp_path: Path, error: Exception, said: str, details: str
) -> None:
    host = broken_host(tmp_path, error)
    first, second = host.agent.roll_back([due("a"), due("b")])
    assert (first.error, first.details, first.instance_uuid) == (said, details, "a")
    assert (second.error, second.power_state, second.instance_uuid) == (None, PowerState.RUNNING, "b")


def test_an_agent_that_ends_leaves_the_rest_for_the_next_start(tmp_path: Path) -> None:
    host = broken_host(tmp_path, AgentStopsError())
    with pytest.raises(AgentStopsError):
        host.agent.roll_back([due("a"), due("b")])
