# SPDX-License-Identifier: Apache-2.0
"""Log of scheduling decisions in the database, written in the background: requests do not wait for it."""

import hashlib
import logging
import zlib
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from kilonova.claims.decision_inputs import DecisionInputs, encode
from kilonova.db import decisions
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.identifiers import new_uuid
from kilonova.model.request_spec import ResourceQuery
from kilonova.model.server_migration import MoveKind
from kilonova.records import dataclass, replace
from kilonova.scheduler.decision import Decision, RankedHost
from kilonova.scheduler.host_table import HostTable

LOG = logging.getLogger(__name__)
_TRIM_EVERY = 256
#: Number of decisions that one write stores, which limits the wait of other writes.
_STORED_TOGETHER = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One scheduling decision to be stored. The database's writer thread encodes it.

    ``server_index``: index of the server within the request.
    """

    request_id: str
    instance_uuid: str
    seq: int
    decision: Decision
    chosen: str | None
    alternates: Sequence[RankedHost]
    names_digest: str
    names: bytes
    inputs: "StoredInputs | None"
    server_index: int
    move: MoveKind | None = None

    @property
    def body(self) -> dict[str, Any]:
        return decisions.body_of(self.decision, self.chosen, self.alternates, self.move)

    @property
    def removed_by(self) -> bytes:
        return zlib.compress(self.decision.removed_by.tobytes(), 1)


@dataclass(frozen=True, slots=True)
class StoredInputs:
    """Encoded decision inputs of a request. ``body``: only set for the first decision of the request, else None."""

    uuid: str
    body: bytes | None


class DecisionLog:
    """Log of the newest ``retention`` decisions. ``configuration``: digest of the scheduling configuration."""

    def __init__(self, database: Database, retention: int, *, configuration: str = "") -> None:
        self._database = database
        self._retention = retention
        self._configuration = configuration
        self._host_names: tuple[tuple[str, ...], str, bytes] | None = None
        self._known_host_names: frozenset[str] = frozenset()
        self._since_trim = 0

    def encoded(self, inputs: DecisionInputs) -> StoredInputs | None:
        """Return the encoded decision inputs, or None if a replay is impossible or the log is disabled."""
        if not self._retention or inputs.spec.query != ResourceQuery():
            return None  # a replay computes the query from flavor and image, so it could not repeat any other query
        return StoredInputs(new_uuid(), encode(inputs, self._configuration))

    def record(
        self,
        *,
        request_id: str,
        seq: int,
        hosts: HostTable,
        made: Sequence[tuple[str, int, Decision, str | None]],
        alternates: Sequence[RankedHost] = (),
        inputs: StoredInputs | None = None,
        move: MoveKind | None = None,
    ) -> None:
        """Store the decisions of a request in the background, with the rejecting rule of each rejected host.

        ``made``: for each decision, the instance uuid, the server's index in the request, the decision and the chosen
        host.
        ``move``: kind of move; None for a new server.
        """
        if not self._retention:
            return
        names_digest, names = self._host_names_of(hosts)
        reference = None if inputs is None else replace(inputs, body=None)
        records = [
            Record(
                request_id=request_id,
                instance_uuid=instance_uuid,
                seq=seq,
                decision=decision,
                chosen=chosen,
                alternates=alternates if chosen is not None else (),
                names_digest=names_digest,
                names=names,
                inputs=reference if number else inputs,
                server_index=server_index,
                move=move,
            )
            for number, (instance_uuid, server_index, decision, chosen) in enumerate(made)
        ]
        for start in range(0, len(records), _STORED_TOGETHER):
            stored = self._database.submit_batched(self._insert, records[start : start + _STORED_TOGETHER])
            stored.add_done_callback(lambda future: self._stored(future, names_digest))

    def _stored(self, future: "Future[None]", names_digest: str) -> None:
        if (error := future.exception()) is not None:
            LOG.error("A scheduling decision could not be stored: %s", error)
        else:
            self._known_host_names |= {names_digest}

    def _host_names_of(self, hosts: HostTable) -> tuple[str, bytes]:
        known = self._host_names
        if known is None or known[0] is not hosts.hosts:
            text = decisions.names_of(hosts)
            digest = hashlib.sha1(text, usedforsecurity=False).hexdigest()
            known = self._host_names = (hosts.hosts, digest, zlib.compress(text))
        return known[1], known[2]

    def _insert(self, tx: Transaction, requests: Sequence[Sequence[Record]]) -> Sequence[None]:
        records = [record for request in requests for record in request]
        new = {
            record.names_digest: record.names for record in records if record.names_digest not in self._known_host_names
        }
        if new:
            decisions.insert_host_names(tx, new)
        decisions.insert_inputs(
            tx, {record.inputs.uuid: record.inputs.body for record in records if record.inputs and record.inputs.body}
        )
        decisions.insert(tx, records)
        self._since_trim += len(records)
        if self._since_trim >= _TRIM_EVERY:
            decisions.trim(tx, self._retention)
            self._since_trim = 0
            self._known_host_names = frozenset()
        return [None] * len(requests)
