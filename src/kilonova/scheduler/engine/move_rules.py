# SPDX-License-Identifier: Apache-2.0
"""Rules for moves: hypervisor type and driver abilities. These rules always run, even for forced hosts.

A resize, a cold migration and a live migration transfer the guest itself. So source and destination need the same
hypervisor type and the driver ability for this kind of move. An evacuation, an unshelve and a rebuild create the guest
again from an image: the destination may have another hypervisor type if the image's properties allow it. The
destination of an evacuation or a rebuild needs the ability to rebuild.
The fault of a server shows the reasons of these rules, so the reasons name no host.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from kilonova.model.ability import Ability
from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_migration import MoveKind
from kilonova.scheduler.engine.step import Step
from kilonova.scheduler.host_table import BoolArray, HostTable

HYPERVISOR_RULE, ABILITY_RULE = "hypervisor_type", "abilities"
#: The driver ability that the destination of a move needs. If the guest is transferred, the source needs it as well.
NEEDED: Mapping[MoveKind, Ability | None] = {
    MoveKind.RESIZE: Ability.COLD_MIGRATE,
    MoveKind.COLD_MIGRATE: Ability.COLD_MIGRATE,
    MoveKind.LIVE_MIGRATE: Ability.LIVE_MIGRATE,
    MoveKind.EVACUATE: Ability.REBUILD,
    MoveKind.REBUILD: Ability.REBUILD,
    MoveKind.UNSHELVE: None,
}
_CARRIES_GUEST = frozenset({MoveKind.RESIZE, MoveKind.COLD_MIGRATE, MoveKind.LIVE_MIGRATE})


def move_steps(hosts: HostTable, spec: RequestSpec) -> Iterator[Step]:
    """Yield the verdicts on the destination's hypervisor type and abilities; omit verdicts that exclude no host.

    A resize on the same host needs only the ability RESIZE_SAME_HOST.
    """
    if spec.move is None:
        return
    home = _home(hosts, spec) if spec.move in _CARRIES_GUEST else None
    yield from (step for step in _steps(hosts, spec.move, home) if not step.mask.all())


def _steps(hosts: HostTable, move: MoveKind, home: int | None) -> Iterator[Step]:
    if home is not None:
        yield Step(HYPERVISOR_RULE, "has another hypervisor than the server's host", _same_hypervisor(hosts, home))
    needed = NEEDED[move]
    if needed is None:
        return
    able = _able(hosts, needed)
    if home is None:
        yield Step(ABILITY_RULE, _lacks(needed), able)
        return
    stays = np.zeros(len(hosts), dtype=np.bool_)
    stays[home] = True
    if not able[home]:
        yield Step(ABILITY_RULE, f"the server's host lacks the ability {needed}", stays)
    yield Step(ABILITY_RULE, _lacks(needed), able | stays)
    if move is MoveKind.RESIZE and not _able(hosts, Ability.RESIZE_SAME_HOST)[home]:
        yield Step(ABILITY_RULE, _lacks(Ability.RESIZE_SAME_HOST), ~stays)


def _lacks(ability: Ability) -> str:
    return f"lacks the ability {ability}"


def _home(hosts: HostTable, spec: RequestSpec) -> int | None:
    """Return the row of the server's current host, or None if the server has no host."""
    return next((hosts.instance_rows[uuid] for uuid in spec.instance_uuids if uuid in hosts.instance_rows), None)


def _able(hosts: HostTable, ability: Ability) -> BoolArray:
    """Return the hosts whose driver has an ability. Shapes: → (H,)."""

    def able() -> BoolArray:
        each = np.array([profile.can(ability) for profile in hosts.profiles], dtype=np.bool_)
        return hosts.all_hosts if each.all() else each[hosts.profile]

    return hosts.memo.get((ABILITY_RULE, ability), able)


def _same_hypervisor(hosts: HostTable, home: int) -> BoolArray:
    """Return the hosts that have the same hypervisor type as the host at row ``home``. Shapes: → (H,)."""
    wanted = hosts.profiles[int(hosts.profile[home])].hypervisor_type

    def same() -> BoolArray:
        each = np.array([profile.hypervisor_type == wanted for profile in hosts.profiles], dtype=np.bool_)
        return hosts.all_hosts if each.all() else each[hosts.profile]

    return hosts.memo.get((HYPERVISOR_RULE, wanted), same)
