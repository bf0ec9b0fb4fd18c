# SPDX-License-Identifier: Apache-2.0
"""Registration of a control process under the service names that operators expect, such as nova-conductor."""

from collections.abc import Sequence

from kilonova.db import services
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.model.host import Service


def register_services(database: Database, machine: str, binaries: Sequence[str]) -> Sequence[Service]:
    """Register the services ``binaries`` on ``machine``; return those that were not registered before."""

    def register(tx: Transaction) -> Sequence[Service]:
        there = [services.ensure(tx, machine, binary) for binary in binaries]
        return [service for service in there if service.created_at == tx.now]

    return database.write(register)
