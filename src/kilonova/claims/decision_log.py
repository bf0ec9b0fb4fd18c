# SPDX-License-Identifier: Apache-2.0
"""Keep every decision, in the background: the request's outcome waits for none of this."""

import hashlib
import logging
import zlib
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from kilonova.db import decisions
from kilonova.db.database import Database, Transaction
from kilonova.scheduler.decision import Decision, RankedHost
from kilonova.scheduler.host_table import HostTable

LOG = logging.getLogger(__name__)
_TRIM_EVERY = 256


@dataclass(frozen=True, slots=True)
class Record:
    """One decision on its way to the database."""

    request_id: str
    instance_uuid: str
    seq: int
    body: dict[str, Any]
    removed_by: bytes
    roster: str
    names: bytes


class DecisionLog:
    """Stores decisions with bounded retention."""

    def __init__(self, database: Database, retention: int) -> None:
        self._database = database
        self._retention = retention
        self._roster: tuple[tuple[str, ...], str, bytes] | None = None
        self._known_rosters: frozenset[str] = frozenset()
        self._since_trim = 0

    def record(
        self,
        *,
        request_id: str,
        instance_uuid: str,
        seq: int,
        hosts: HostTable,
        decision: Decision,
        chosen: str | None,
        alternates: Sequence[RankedHost] = (),
    ) -> None:
        """Store a decision and the reason for every host that it passed over; returns at once."""
        if not self._retention:
            return
        roster, names = self._roster_of(hosts)
        body = decisions.body_of(decision, chosen, alternates)
        removed_by = zlib.compress(decision.removed_by.tobytes(), 1)
        record = Record(request_id, instance_uuid, seq, body, removed_by, roster, names)
        self._database.submit_merged(self._insert, record).add_done_callback(
            lambda future: self._stored(future, roster)
        )

    def _stored(self, future: "Future[None]", roster: str) -> None:
        if (error := future.exception()) is not None:
            LOG.error("A decision was not stored: %s", error)
        else:
            self._known_rosters |= {roster}

    def _roster_of(self, hosts: HostTable) -> tuple[str, bytes]:
        known = self._roster
        if known is None or known[0] is not hosts.hosts:
            text = "\n".join(f"{host}\t{node}" for host, node in zip(hosts.hosts, hosts.nodes, strict=True)).encode()
            digest = hashlib.sha1(text, usedforsecurity=False).hexdigest()
            known = self._roster = (hosts.hosts, digest, zlib.compress(text))
        return known[1], known[2]

    def _insert(self, tx: Transaction, records: Sequence[Record]) -> Sequence[None]:
        new = {record.roster: record.names for record in records if record.roster not in self._known_rosters}
        if new:
            decisions.insert_rosters(tx, new)
        decisions.insert(tx, records)
        self._since_trim += len(records)
        if self._since_trim >= _TRIM_EVERY:
            decisions.trim(tx, self._retention)
            self._since_trim = 0
            self._known_rosters = frozenset()
        return [None] * len(records)
