# SPDX-License-Identifier: Apache-2.0
"""Decisions as stored: the funnel, the ranked hosts with weights, and for every other host the rule that lost it."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import tables as t
from kilonova.db.database import Transaction
from kilonova.scheduler.decision import SURVIVED, Decision, RankedHost


class DecisionRecord(Protocol):
    """What :func:`insert` stores."""

    @property
    def request_id(self) -> str: ...
    @property
    def instance_uuid(self) -> str: ...
    @property
    def seq(self) -> int: ...
    @property
    def body(self) -> dict[str, Any]: ...
    @property
    def removed_by(self) -> bytes: ...
    @property
    def roster(self) -> str: ...
    @property
    def names(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class StoredDecision:
    """``removed``: rule index → (host, node) pairs that it was the first to remove."""

    request_id: str
    instance_uuid: str
    created_at: datetime
    seq: int
    body: dict[str, Any]
    removed: dict[int, list[tuple[str, str]]]


def body_of(decision: Decision, chosen: str | None, alternates: Sequence[RankedHost] = ()) -> dict[str, Any]:
    """Return the JSON part of a decision."""
    return {
        "chosen": chosen,
        "alternates": [[host.host, host.node] for host in alternates],
        "survivors": decision.survivors,
        "forced": decision.forced,
        "steps": [[step.rule, step.reason, step.hosts_in, step.hosts_out] for step in decision.steps],
        "ranked": [[host.host, host.node, host.score, dict(host.weights)] for host in decision.ranked],
    }


def insert_rosters(tx: Transaction, names: Mapping[str, bytes]) -> None:
    """Store the host names behind the rows of decisions (digest → names); known ones are success."""
    table = t.rosters
    known = set(tx.execute(sa.select(table.c.digest).where(table.c.digest.in_(list(names)))).scalars())
    for digest in sorted(names.keys() - known):
        tx.execute(sa.insert(table), {"digest": digest, "created_at": tx.now, "names": names[digest]})


def insert(tx: Transaction, records: Sequence[DecisionRecord]) -> None:
    """Store decisions."""
    rows = [
        {
            "request_id": record.request_id,
            "instance_uuid": record.instance_uuid,
            "created_at": tx.now,
            "seq": record.seq,
            "body": record.body,
            "removed_by": record.removed_by,
            "roster": record.roster,
        }
        for record in records
    ]
    tx.execute(sa.insert(t.decisions), rows)


def trim(tx: Transaction, retention: int) -> None:
    """Drop the oldest decisions beyond ``retention``, and the rosters that none needs any more."""
    newest = tx.execute(sa.select(sa.func.max(t.decisions.c.id))).scalar() or 0
    tx.execute(sa.delete(t.decisions).where(t.decisions.c.id <= newest - retention))
    used = sa.select(t.decisions.c.roster).distinct()
    tx.execute(sa.delete(t.rosters).where(t.rosters.c.digest.not_in(used)))


def find(connection: Connection, name: str) -> tuple[StoredDecision, ...]:
    """Return the decisions of a request id or an instance uuid, oldest first; empty when none is kept."""
    table = t.decisions
    statement = (
        sa.select(table, t.rosters.c.names)
        .join(t.rosters, t.rosters.c.digest == table.c.roster)
        .where(sa.or_(table.c.request_id == name, table.c.instance_uuid == name))
        .order_by(table.c.id)
    )
    return tuple(_decision(row) for row in connection.execute(statement))


def _decision(row: Any) -> StoredDecision:
    names = [tuple(line.split("\t")) for line in zlib.decompress(row.names).decode().split("\n")]
    removed: dict[int, list[tuple[str, str]]] = {}
    for index, rule in enumerate(zlib.decompress(row.removed_by)):
        if rule != SURVIVED:
            host, node = names[index]
            removed.setdefault(rule, []).append((host, node))
    return StoredDecision(row.request_id, row.instance_uuid, row.created_at, row.seq, row.body, removed)
