# SPDX-License-Identifier: Apache-2.0
"""Placing of an unshelve: a shelved and offloaded server gets a new host, and all its resources on this host."""

from collections.abc import Sequence
from typing import ClassVar

from kilonova.claims.first_host import FirstHost, add_consumers
from kilonova.claims.placing import Claim
from kilonova.db import instances
from kilonova.db.core.transaction import Transaction
from kilonova.model.instance import TaskState, VmState
from kilonova.records import dataclass

_OFFLOADED = FirstHost(VmState.SHELVED_OFFLOADED, TaskState.UNSHELVING)


@dataclass(frozen=True, slots=True)
class Unshelving:
    """Placing of a server that is shelved, offloaded and being unshelved."""

    home: ClassVar[None] = None

    @classmethod
    def take(cls, tx: Transaction, claims: Sequence[Claim]) -> None:
        _OFFLOADED.take(tx, claims)

    @classmethod
    def record(cls, tx: Transaction, claims: Sequence[Claim]) -> None:
        add_consumers(tx, claims)
        for claim in claims:
            instances.log(tx, claim.instance_uuid)
