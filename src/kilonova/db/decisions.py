# SPDX-License-Identifier: Apache-2.0
"""Stored scheduling decisions: each rule with its rejected hosts, the ranked hosts with weights, the chosen host."""

import zlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

import msgspec
import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.core import tables as t
from kilonova.db.core.prepared import PreparedInsert
from kilonova.db.core.statements import pieces
from kilonova.db.core.transaction import Transaction
from kilonova.deadline import heeding
from kilonova.model.server_migration import MoveKind
from kilonova.records import dataclass
from kilonova.scheduler.decision import SURVIVED, Decision, RankedHost
from kilonova.scheduler.host_table import HostTable

_INSERT = PreparedInsert(t.decisions)
_INSERT_INPUTS = PreparedInsert(t.circumstances)


class DecisionRecord(Protocol):
    """A decision for :func:`insert` to store."""

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
    def names_digest(self) -> str: ...
    @property
    def names(self) -> bytes: ...
    @property
    def inputs(self) -> "InputsRecord | None": ...
    @property
    def server_index(self) -> int: ...


class InputsRecord(Protocol):
    """The stored inputs of the decisions of one request."""

    @property
    def uuid(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDecision:
    """A decision as read from the database.

    ``removed``: rule index → (host, node) pairs that this rule was the first to reject. ``removed_by``: for each host
    one byte, which is the index of the rule that rejected the host first, or ``SURVIVED``. ``names``: names of the
    hosts, in the order of ``removed_by``. ``inputs``: the inputs of the decision, if they were stored.
    ``server_index``: index of the server in its request.
    """

    request_id: str
    instance_uuid: str
    created_at: datetime
    seq: int
    body: dict[str, Any]
    removed: dict[int, list[tuple[str, str]]]
    removed_by: bytes = b""
    names: bytes = b""
    inputs: bytes | None = None
    server_index: int | None = None


def names_of(hosts: HostTable) -> bytes:
    """Return the encoded host and node names of a host table, in row order."""
    return "\n".join(f"{host}\t{node}" for host, node in zip(hosts.hosts, hosts.nodes, strict=True)).encode()


def body_of(
    decision: Decision, chosen: str | None, alternates: Sequence[RankedHost] = (), move: MoveKind | None = None
) -> dict[str, Any]:
    """Return the JSON body of a decision: rules with the number of hosts, ranked hosts, chosen host and alternates."""
    return {
        "move": None if move is None else move.value,
        "chosen": chosen,
        "alternates": [[host.host, host.node] for host in alternates],
        "survivors": decision.survivors,
        "forced": decision.forced,
        "steps": [[step.rule, step.reason, step.hosts_in, step.hosts_out] for step in decision.steps],
        "ranked": [[host.host, host.node, host.score, dict(host.weights)] for host in decision.ranked],
    }


def insert_host_names(tx: Transaction, names: Mapping[str, bytes]) -> None:
    """Store the host names of decisions (digest → names); known digests are skipped."""
    table = t.rosters
    known = set(tx.execute(sa.select(table.c.digest).where(table.c.digest.in_(list(names)))).scalars())
    for digest in sorted(names.keys() - known):
        tx.execute(sa.insert(table), {"digest": digest, "created_at": tx.now, "names": names[digest]})


def insert_inputs(tx: Transaction, bodies: Mapping[str, bytes]) -> None:
    """Store the inputs of decisions (uuid → body)."""
    rows = [{"uuid": uuid, "created_at": tx.now, "body": body} for uuid, body in bodies.items()]
    _INSERT_INPUTS.run(tx.connection, rows)


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
            "roster": record.names_digest,
            "circumstances_id": record.inputs.uuid if record.inputs is not None else None,
            "server_index": record.server_index,
        }
        for record in records
    ]
    _INSERT.run(tx.connection, rows)


def trim(tx: Transaction, retention: int) -> None:
    """Delete all but the newest ``retention`` decisions, and the host names and inputs that no decision uses."""
    newest = tx.execute(sa.select(sa.func.max(t.decisions.c.id))).scalar() or 0
    tx.execute(sa.delete(t.decisions).where(t.decisions.c.id <= newest - retention))
    used = sa.select(t.decisions.c.roster).distinct()
    tx.execute(sa.delete(t.rosters).where(t.rosters.c.digest.not_in(used)))
    based = sa.select(t.decisions.c.id).where(t.decisions.c.circumstances_id == t.circumstances.c.uuid)
    tx.execute(sa.delete(t.circumstances).where(~based.exists()))


def find(connection: Connection, name: str) -> tuple[StoredDecision, ...]:
    """Return the stored decisions of ``name``: of a request id, oldest first; or of an instance uuid, newest first.

    A rejected request has one decision for all of its instances.
    """
    found = _find(connection, name)
    if not found:
        spec, instance = t.request_specs.c, t.instances.c
        asked = sa.select(spec.request_id).join(t.instances, instance.request_spec_uuid == spec.uuid)
        request_id = connection.execute(asked.where(instance.uuid == name)).scalar()
        if request_id is not None:
            found = tuple(each for each in _find(connection, request_id) if each.body["chosen"] is None)
    return found if name in {each.request_id for each in found} else found[::-1]


class DecisionPlace(NamedTuple):
    """Where a stored decision is.

    ``inputs_id``: id of its inputs, which the servers of a request share; None: they were not stored.
    """

    id: int
    seq: int
    inputs_id: str | None


def newest(connection: Connection, count: int, *, since: datetime | None = None) -> list[DecisionPlace]:
    """Return the places of the newest ``count`` stored decisions, in the order in which they were decided.

    ``since``: leave out older decisions.
    """
    table = t.decisions.c
    statement = sa.select(table.id, table.seq, table.circumstances_id).order_by(table.id.desc()).limit(count)
    if since is not None:
        statement = statement.where(table.created_at >= since)
    found = [DecisionPlace(*row) for row in heeding(connection.execute(statement))]
    return sorted(found, key=lambda place: (place.seq, place.id))


class _RankedPlace(msgspec.Struct, frozen=True, array_like=True):
    """The names of a ranked host; the decoder skips its score and weights."""

    host: str
    node: str


class _ShownBody(msgspec.Struct, frozen=True):
    """The parts of a stored decision that comparisons of many decisions read."""

    chosen: str | None
    ranked: tuple[_RankedPlace, ...]
    move: str | None = None


_SHOWN_BODY = msgspec.json.Decoder(_ShownBody)


class PackedDecision(NamedTuple):
    """A stored decision whose larger parts are not unpacked, for readers of many decisions.

    ``chosen``: service host and node; None: no host. ``text``: see :attr:`body`. ``packed``: see :attr:`removed_by`.
    ``names``: as in :class:`StoredDecision`; decisions on the same hosts share it.
    """

    request_id: str
    instance_uuid: str
    created_at: datetime
    seq: int
    server_index: int
    chosen: tuple[str, str] | None
    move: str | None
    text: str
    packed: bytes
    names: bytes

    @property
    def body(self) -> dict[str, Any]:
        """The body of the decision, as in :class:`StoredDecision`."""
        body: dict[str, Any] = orjson.loads(self.text)
        return body

    @property
    def removed_by(self) -> bytes:
        """For each host the index of the rule that rejected it first, or ``SURVIVED``."""
        return zlib.decompress(self.packed)


def read_many(connection: Connection, ids: Sequence[int], names: dict[str, bytes]) -> dict[int, PackedDecision]:
    """Return decisions with inputs by id. ``names``: digest → host names that were read already; it is added to."""
    table = t.decisions.c
    shown = table.request_id, table.instance_uuid, table.created_at, table.seq, table.server_index
    statement = sa.select(table.id, *shown, sa.cast(table.body, sa.Text).label("text"), table.removed_by, table.roster)
    found: dict[int, PackedDecision] = {}
    for some in pieces(ids):
        for number, *values, text, packed, digest in connection.execute(statement.where(table.id.in_(some))):
            if digest not in names:
                roster = sa.select(t.rosters.c.names).where(t.rosters.c.digest == digest)
                names[digest] = zlib.decompress(connection.execute(roster).scalar_one())
            body = _SHOWN_BODY.decode(text)
            place = None if body.chosen is None else (body.chosen, _node_of(body))
            told: Any = (*values, place, body.move, text, packed, names[digest])
            found[number] = PackedDecision(*told)
    return found


def _node_of(body: _ShownBody) -> str:
    """Return the node of the chosen host: that of its best-ranked row."""
    return next((each.node for each in body.ranked if each.host == body.chosen), "")


def inputs_of(connection: Connection, uuids: Sequence[str]) -> dict[str, bytes]:
    """Return the stored inputs by id."""
    table = t.circumstances.c
    found: dict[str, bytes] = {}
    for some in pieces(uuids):
        rows = connection.execute(sa.select(table.uuid, table.body).where(table.uuid.in_(some)))
        found.update((row.uuid, row.body) for row in rows)
    return found


def _find(connection: Connection, name: str) -> tuple[StoredDecision, ...]:
    table = t.decisions
    statement = (
        sa.select(table, t.rosters.c.names, t.circumstances.c.body.label("inputs"))
        .join(t.rosters, t.rosters.c.digest == table.c.roster)
        .outerjoin(t.circumstances, t.circumstances.c.uuid == table.c.circumstances_id)
        .where(sa.or_(table.c.request_id == name, table.c.instance_uuid == name))
        .order_by(table.c.id)
    )
    return tuple(_decision(row) for row in heeding(connection.execute(statement)))


def _decision(row: Any) -> StoredDecision:
    all_names, removed_by = zlib.decompress(row.names), zlib.decompress(row.removed_by)
    names = [tuple(line.split("\t")) for line in all_names.decode().split("\n")]
    removed: dict[int, list[tuple[str, str]]] = {}
    for index, rule in enumerate(removed_by):
        if rule != SURVIVED:
            host, node = names[index]
            removed.setdefault(rule, []).append((host, node))
    return StoredDecision(
        request_id=row.request_id,
        instance_uuid=row.instance_uuid,
        created_at=row.created_at,
        seq=row.seq,
        body=row.body,
        removed=removed,
        removed_by=removed_by,
        names=all_names,
        inputs=row.inputs,
        server_index=row.server_index,
    )
