# SPDX-License-Identifier: Apache-2.0
"""Keep every decision, in the background: the request's outcome waits for none of this."""

import hashlib
import logging
import zlib
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from kilonova.claims.circumstances import Circumstances, encode
from kilonova.db import decisions
from kilonova.db.database import Database
from kilonova.db.transaction import Transaction
from kilonova.identifiers import new_uuid
from kilonova.model.request_spec import ResourceQuery
from kilonova.model.server_migration import MoveKind
from kilonova.scheduler.decision import Decision, RankedHost
from kilonova.scheduler.host_table import HostTable

LOG = logging.getLogger(__name__)
_TRIM_EVERY = 256
#: How many decisions of one request one write stores, so that others wait for no more than these.
_STORED_TOGETHER = 100


@dataclass(frozen=True, slots=True)
class Record:
    """One decision on its way to the database; put into its stored form when it gets there.

    ``server_index``: which server of the request it was for.
    """

    request_id: str
    instance_uuid: str
    seq: int
    decision: Decision
    chosen: str | None
    alternates: Sequence[RankedHost]
    roster: str
    names: bytes
    kept: "Kept | None"
    server_index: int
    move: MoveKind | None = None

    @property
    def body(self) -> dict[str, Any]:
        return decisions.body_of(self.decision, self.chosen, self.alternates, self.move)

    @property
    def removed_by(self) -> bytes:
        return zlib.compress(self.decision.removed_by.tobytes(), 1)


@dataclass(frozen=True, slots=True)
class Kept:
    """What the decisions of one request were made on, as it is stored: ``body`` with the first of them alone."""

    uuid: str
    body: bytes | None


class DecisionLog:
    """Stores decisions with bounded retention. ``configuration``: digest of the options that make the engine."""

    def __init__(self, database: Database, retention: int, *, configuration: str = "") -> None:
        self._database = database
        self._retention = retention
        self._configuration = configuration
        self._roster: tuple[tuple[str, ...], str, bytes] | None = None
        self._known_rosters: frozenset[str] = frozenset()
        self._since_trim = 0

    def kept(self, circumstances: Circumstances) -> Kept | None:
        """Return what is to be stored with the decisions that were made on this."""
        if not self._retention or circumstances.spec.query != ResourceQuery():
            return None  # a query that does not come from flavor and image is not stored with a request
        return Kept(new_uuid(), encode(circumstances, self._configuration))

    def record(
        self,
        *,
        request_id: str,
        seq: int,
        hosts: HostTable,
        made: Sequence[tuple[str, int, Decision, str | None]],
        alternates: Sequence[RankedHost] = (),
        kept: Kept | None = None,
        move: MoveKind | None = None,
    ) -> None:
        """Store the decisions of a request and the reason for every host that they passed over; returns at once.

        ``made``: (instance uuid, which server of the request, decision, chosen host), of each.
        ``move``: why a server that exists was placed anew.
        """
        if not self._retention:
            return
        roster, names = self._roster_of(hosts)
        reference = None if kept is None else replace(kept, body=None)
        records = [
            Record(
                request_id,
                instance_uuid,
                seq,
                decision,
                chosen,
                alternates if chosen is not None else (),
                roster,
                names,
                reference if number else kept,
                server_index,
                move,
            )
            for number, (instance_uuid, server_index, decision, chosen) in enumerate(made)
        ]
        for start in range(0, len(records), _STORED_TOGETHER):
            stored = self._database.submit_merged(self._insert, records[start : start + _STORED_TOGETHER])
            stored.add_done_callback(lambda future: self._stored(future, roster))

    def _stored(self, future: "Future[None]", roster: str) -> None:
        if (error := future.exception()) is not None:
            LOG.error("A decision was not stored: %s", error)
        else:
            self._known_rosters |= {roster}

    def _roster_of(self, hosts: HostTable) -> tuple[str, bytes]:
        known = self._roster
        if known is None or known[0] is not hosts.hosts:
            text = decisions.names_of(hosts)
            digest = hashlib.sha1(text, usedforsecurity=False).hexdigest()
            known = self._roster = (hosts.hosts, digest, zlib.compress(text))
        return known[1], known[2]

    def _insert(self, tx: Transaction, requests: Sequence[Sequence[Record]]) -> Sequence[None]:
        records = [record for request in requests for record in request]
        new = {record.roster: record.names for record in records if record.roster not in self._known_rosters}
        if new:
            decisions.insert_rosters(tx, new)
        decisions.insert_circumstances(
            tx, {record.kept.uuid: record.kept.body for record in records if record.kept and record.kept.body}
        )
        decisions.insert(tx, records)
        self._since_trim += len(records)
        if self._since_trim >= _TRIM_EVERY:
            decisions.trim(tx, self._retention)
            self._since_trim = 0
            self._known_rosters = frozenset()
        return [None] * len(requests)
