# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from kilonova.model.ability import Ability
from kilonova.model.host import Capabilities
from kilonova.model.instance import TaskState, VmState
from kilonova.model.server_migration import MoveKind
from kilonova.planning.planned_server import hindrances

LIVE, COLD = MoveKind.LIVE_MIGRATE, MoveKind.COLD_MIGRATE
ABLE = Capabilities(abilities=tuple(sorted(Ability)))
GOOD: dict[str, Any] = {"launched": True, "source": ABLE, "source_is_up": True}


@pytest.mark.parametrize(
    ("vm_state", "task_state", "facts", "hindered"),
    [
        (VmState.ACTIVE, None, {}, {}),
        (VmState.STOPPED, None, {}, {LIVE: "state stopped"}),
        (VmState.PAUSED, None, {}, {COLD: "state paused"}),
        (VmState.ERROR, None, {}, {LIVE: "state error", COLD: "state error"}),
        (VmState.ACTIVE, TaskState.REBOOTING, {}, {LIVE: "task rebooting", COLD: "task rebooting"}),
        (VmState.ACTIVE, None, {"launched": False}, {LIVE: "never launched", COLD: "never launched"}),
        (VmState.ACTIVE, None, {"source": None}, {LIVE: "unknown", COLD: "unknown"}),
        (VmState.ACTIVE, None, {"source_is_up": False}, {LIVE: "is down", COLD: "is down"}),
        (VmState.ACTIVE, None, {"source": Capabilities(abilities=("cold-migrate",))}, {LIVE: "ability live-migrate"}),
        (VmState.ACTIVE, None, {"source": Capabilities("QEMU")}, {LIVE: "live-migrate", COLD: "cold-migrate"}),
    ],
)
def test_hindrances(
    vm_state: VmState, task_state: TaskState | None, facts: dict[str, Any], hindered: dict[MoveKind, str]
) -> None:
    found = hindrances(vm_state, task_state, **{**GOOD, **facts})
    assert found.keys() == hindered.keys()
    assert all(text in found[kind] for kind, text in hindered.items())
