# SPDX-License-Identifier: Apache-2.0
"""Servers of a planned cloud: the request, the resources and the possible moves of each."""

from collections.abc import Mapping

import msgspec

from kilonova.model.ability import Ability
from kilonova.model.host import Capabilities
from kilonova.model.host_devices import DeviceShare
from kilonova.model.instance import TaskState, VmState
from kilonova.model.needed_abilities import NEEDED
from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_migration import MoveKind
from kilonova.model.transitions import TRANSITIONS
from kilonova.scheduler.devices.choice import DeviceNeeds
from kilonova.scheduler.engine.provider_trees import Allocations
from kilonova.scheduler.guests import GuestKind

NO_DEVICES = DeviceNeeds()
#: Beginning of the reason why a server that is busy cannot be moved; the server may be movable a moment later.
HAS_TASK = "the server has the task"
#: Hints of requests that name no servers and so never tie two servers together.
_NAMELESS_HINTS = frozenset({"group", "query", "cidr", "build_near_host_ip"})


#: The kinds of moves that plans contain, in the order in which they are preferred.
KINDS = (MoveKind.LIVE_MIGRATE, MoveKind.COLD_MIGRATE)


class PlannedServer(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A server on a host.

    ``row``: row of the server's host in the host table of the snapshot. ``spec``: the stored request with the present
    flavor and the resource query. ``needs``: the NUMA cells and PCI devices that the server requests.
    ``allocations``, ``share``: what the server holds on its host. ``guest``: its kind, for rules that count guests.
    ``group_uuid``: its server group. ``disk_gib``, ``memory_gib``: size of its local disks and of its memory.
    ``avoided``: service hosts that no move may choose. ``hindrances``: kind of move → reason why the server cannot be
    moved in this way; kinds without a reason are possible. ``locked``: whether the server is locked.
    """

    uuid: str
    name: str = ""
    row: int
    spec: RequestSpec
    needs: DeviceNeeds = NO_DEVICES
    allocations: Allocations
    share: DeviceShare | None = None
    guest: GuestKind
    group_uuid: str | None = None
    disk_gib: float = 0.0
    memory_gib: float = 0.0
    avoided: frozenset[str] = frozenset()
    hindrances: Mapping[MoveKind, str] = {}
    locked: bool = False

    def copied_gib(self, kind: MoveKind) -> float:
        """Return how many GiB a move copies: the local disks and, if the guest runs meanwhile, its memory."""
        return self.disk_gib + (self.memory_gib if kind is MoveKind.LIVE_MIGRATE else 0.0)

    @property
    def named_servers(self) -> frozenset[str]:
        """The values of hints that may name other servers, such as ``different_host``."""
        values = (self.spec.hints[name] for name in self.spec.hints if name not in _NAMELESS_HINTS)
        return frozenset(value for each in values for value in each)


def hindrances(
    vm_state: VmState,
    task_state: TaskState | None,
    *,
    launched: bool,
    source: Capabilities | None,
    source_is_up: bool,
) -> dict[MoveKind, str]:
    """Return kind of move → reason why a server cannot be moved in this way; possible kinds are absent.

    ``source``: the capabilities of its host; None if the host is unknown.
    """
    found = {}
    for kind in KINDS:
        reason = _hindrance(kind, vm_state, task_state, launched, source, source_is_up)
        if reason is not None:
            found[kind] = reason
    return found


def _hindrance(
    kind: MoveKind,
    vm_state: VmState,
    task_state: TaskState | None,
    launched: bool,
    source: Capabilities | None,
    source_is_up: bool,
) -> str | None:
    transition = TRANSITIONS[kind.value]
    if task_state not in transition.tasks:
        return f"{HAS_TASK} {task_state}"
    if vm_state not in transition.states:
        return f"a server with the state {vm_state} cannot be moved in this way"
    if transition.launched and not launched:
        return "the server was never launched"
    if source is None:
        return "the hypervisor of the server's host is unknown"
    if not source_is_up:
        return "the compute service of the server's host is down"
    lacking = [str(ability) for ability in sorted(NEEDED[kind.value]) if not source.can(Ability(ability))]
    return f"the server's host lacks the ability {' and '.join(lacking)}" if lacking else None
