# SPDX-License-Identifier: Apache-2.0
"""The placing of an unshelve: a server that has left its host gets another one, and takes there all that it holds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from kilonova.claims.first_host import FirstHost, add_consumers
from kilonova.claims.placing import Claim
from kilonova.db import instances
from kilonova.db.core.transaction import Transaction
from kilonova.model.instance import TaskState, VmState

_OFFLOADED = FirstHost(VmState.SHELVED_OFFLOADED, TaskState.UNSHELVING)


@dataclass(frozen=True, slots=True)
class Unshelving:
    """A server that is shelved, has left its host, and is being unshelved."""

    home: ClassVar[None] = None

    @classmethod
    def take(cls, tx: Transaction, claims: Sequence[Claim]) -> None:
        _OFFLOADED.take(tx, claims)

    @classmethod
    def record(cls, tx: Transaction, claims: Sequence[Claim]) -> None:
        add_consumers(tx, claims)
        for claim in claims:
            instances.log(tx, claim.instance_uuid)
