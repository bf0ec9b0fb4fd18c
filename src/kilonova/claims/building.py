# SPDX-License-Identifier: Apache-2.0
"""Placing of a build: a new server gets its first host."""

from collections.abc import Sequence
from typing import ClassVar

from kilonova.claims.first_host import FirstHost, add_consumers
from kilonova.claims.placing import Claim
from kilonova.db.core.transaction import Transaction
from kilonova.db.mirror_source import instance_value
from kilonova.model.instance import TaskState, VmState
from kilonova.records import dataclass

_NEW = FirstHost(VmState.BUILDING, TaskState.SCHEDULING)


@dataclass(frozen=True, slots=True)
class Building:
    """Placing of a new server."""

    home: ClassVar[None] = None

    @classmethod
    def take(cls, tx: Transaction, claims: Sequence[Claim]) -> None:
        _NEW.take(tx, claims)

    @classmethod
    def record(cls, tx: Transaction, claims: Sequence[Claim]) -> None:
        add_consumers(tx, claims)
        for claim in claims:
            states = VmState.BUILDING.value, claim.shown_after(TaskState.SCHEDULING)
            value = instance_value(claim.host, claim.node, *states, claim.flavor_id, claim.image_properties)
            tx.log("instance", claim.instance_uuid, value)


#: The placing of builds: the default ``placing`` of a claim.
NEW_SERVER = Building()
