# SPDX-License-Identifier: Apache-2.0
"""Decisions as stored: the funnel, the ranked hosts with weights, and for every other host the rule that lost it."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import tables as t
from kilonova.db.database import Transaction
from kilonova.scheduler.decision import SURVIVED, Decision

_TRIM_EVERY = 64


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


def body_of(decision: Decision, chosen: str | None) -> dict[str, Any]:
    """Return the JSON part of a decision."""
    return {
        "chosen": chosen,
        "survivors": decision.survivors,
        "forced": decision.forced,
        "steps": [[step.rule, step.reason, step.hosts_in, step.hosts_out] for step in decision.steps],
        "ranked": [[host.host, host.node, host.score, dict(host.weights)] for host in decision.ranked],
    }


def insert(tx: Transaction, records: Sequence[DecisionRecord], retention: int) -> None:
    """Store decisions and, now and then, drop the oldest beyond ``retention``."""
    known = set(
        tx.execute(sa.select(t.rosters.c.digest).where(t.rosters.c.digest.in_({r.roster for r in records}))).scalars()
    )
    for record in records:
        if record.roster not in known:
            known.add(record.roster)
            tx.execute(sa.insert(t.rosters), {"digest": record.roster, "created_at": tx.now, "names": record.names})
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
    newest = tx.execute(sa.select(sa.func.max(t.decisions.c.id))).scalar_one()
    if newest % _TRIM_EVERY < len(rows):
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
