# SPDX-License-Identifier: Apache-2.0
"""Recorded power states of servers, for the comparison with the states that hypervisors report (LIFECYCLE §6)."""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.core import tables as t
from kilonova.db.core.prepared import Prepared
from kilonova.db.core.statements import pieces
from kilonova.db.core.transaction import Transaction
from kilonova.errors import ConcurrentUpdate
from kilonova.model.instance import Instance, PowerState, VmState
from kilonova.model.transitions import HARD_REBOOT, SOFT_REBOOT
from kilonova.records import dataclass

_I = t.instances.c
_REBOOTS = [task.value for task in (*SOFT_REBOOT, *HARD_REBOOT)]
_COLUMNS = _I.uuid, _I.host, _I.vm_state, _I.power_state, _I.updated_at, _I.task_state
#: Servers whose power states are compared: those without a task, and those that are being rebooted. A reboot may be
#: interrupted for long while the guest is off.
_COMPARED = sa.or_(_I.task_state.is_(None), _I.task_state.in_(_REBOOTS)), _I.deleted.is_(False)
_OF_HOSTS = Prepared(sa.select(*_COLUMNS).where(_I.host.in_(sa.bindparam("hosts", expanding=True)), *_COMPARED))
_OF_SERVERS = Prepared(sa.select(*_COLUMNS).where(_I.uuid.in_(sa.bindparam("uuids", expanding=True)), *_COMPARED))


@dataclass(frozen=True, slots=True)
class Recorded:
    """The recorded state of a server without a task, or of one that is being rebooted.

    ``seen``: time of its last change as ISO text, or "".
    """

    uuid: str
    host: str | None
    vm_state: VmState
    power_state: PowerState
    seen: str
    is_rebooting: bool = False


def of_hosts(connection: Connection, hosts: Collection[str]) -> Iterator[Recorded]:
    """Yield the servers on these hosts that have no task or are being rebooted."""
    for some in pieces(hosts):
        yield from map(_recorded, _OF_HOSTS.rows(connection, hosts=some))


def of_servers(connection: Connection, uuids: Collection[str]) -> Iterator[Recorded]:
    """Yield the servers among ``uuids`` that have no task or are being rebooted."""
    for some in pieces(uuids):
        yield from map(_recorded, _OF_SERVERS.rows(connection, uuids=some))


def require_unchanged(server: Instance, seen: Recorded) -> None:
    """Check that a server has no task, and still has the host and update time of ``seen``. Raises: ConcurrentUpdate."""
    if (server.task_state, server.host, server.updated_at) != (None, seen.host, _time(seen.seen)):
        raise ConcurrentUpdate(f"Server {server.uuid} has changed since it was read.")


def store(tx: Transaction, states: Sequence[tuple[Recorded, PowerState]]) -> None:
    """Store power states that hypervisors report, except for servers that have changed since they were read.

    The update time of a server that is being rebooted stays, because it tells how long the reboot has made no progress.
    """
    for server, state in states:
        same = sa.update(t.instances).where(
            _I.uuid == server.uuid, _I.host == server.host, _I.updated_at == _time(server.seen), *_COMPARED
        )
        changed_at = {} if server.is_rebooting else {"updated_at": tx.now}
        tx.execute(same.values(power_state=int(state), **changed_at))


def _recorded(row: Sequence[Any]) -> Recorded:
    uuid, host, vm_state, power_state, updated_at, task_state = row
    seen = "" if updated_at is None else updated_at.isoformat()
    return Recorded(uuid, host, VmState(vm_state), PowerState(power_state or 0), seen, task_state is not None)


def _time(seen: str) -> datetime | None:
    return datetime.fromisoformat(seen) if seen else None
