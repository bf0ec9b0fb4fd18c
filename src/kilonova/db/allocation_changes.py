# SPDX-License-Identifier: Apache-2.0
"""Changes of the allocations of a server that keeps its host: for an interface that is attached or detached."""

from collections.abc import Mapping

from kilonova.db import allocations
from kilonova.db.allocations import ConsumerAllocations, ConsumerRequest
from kilonova.db.core.transaction import Transaction
from kilonova.errors import Conflict

#: Resource provider uuid → resource class → amount.
Amounts = Mapping[str, Mapping[str, int]]


def add(tx: Transaction, consumer_uuid: str, amounts: Amounts) -> None:
    """Add to the allocations of a server. Raises: Conflict if a provider cannot give an amount; InvalidRequest."""
    present = allocations.for_consumer(tx.connection, consumer_uuid)
    if present is None:
        raise Conflict(f"Server {consumer_uuid} has no allocations.")
    _replace(tx, present, amounts, 1)


def subtract(tx: Transaction, consumer_uuid: str, amounts: Amounts) -> None:
    """Subtract from the allocations of a server, as far as it has them."""
    present = allocations.for_consumer(tx.connection, consumer_uuid)
    if present is not None and amounts.keys() & present.allocations.keys():
        _replace(tx, present, amounts, -1)


def _replace(tx: Transaction, present: ConsumerAllocations, amounts: Amounts, sign: int) -> None:
    """Write the sums of the present allocations and of ``amounts``, without those that become 0."""
    sums: dict[str, dict[str, int]] = {uuid: dict(given) for uuid, given in present.allocations.items()}
    for uuid, given in amounts.items():
        for name, amount in given.items():
            held = sums.setdefault(uuid, {})
            held[name] = held.get(name, 0) + sign * amount
    kept = {uuid: {name: amount for name, amount in given.items() if amount > 0} for uuid, given in sums.items()}
    request = ConsumerRequest(
        present.consumer_uuid,
        present.project_id,
        present.user_id,
        {uuid: given for uuid, given in kept.items() if given},
    )
    allocations.replace(tx, [request])
