# SPDX-License-Identifier: Apache-2.0
"""Replay of stored decisions: rebuild the mirror's state, decide again, and report the differences.

::

    checkpoint ─▶ changes up to the decision's seq ─▶ its assumptions ─▶ the same snapshot ─▶ the same decisions
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from sqlalchemy.engine import Connection

from kilonova.claims.decision_inputs import DecisionInputs, decode
from kilonova.db import checkpoints
from kilonova.db.core import change_log
from kilonova.db.decisions import StoredDecision, body_of, names_of
from kilonova.errors import FromNewerRelease, RuleFailed
from kilonova.mirror.mirror import Mirror
from kilonova.records import dataclass
from kilonova.scheduler.decision import Decision
from kilonova.scheduler.devices.choice import first_that_gives, needs_of
from kilonova.scheduler.devices.pci_request import Alias
from kilonova.scheduler.engine.batch import Batch
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.engine.group_policies import group_for
from kilonova.scheduler.explanations.explain import Explanation, explain
from kilonova.scheduler.host_table import HostTable
from kilonova.scheduler.resources import with_resources

_COMPARED = ("survivors", "forced", "steps", "ranked")


@dataclass(frozen=True, slots=True)
class Replay:
    """A replayed decision. ``differences``: differences from the stored decision; empty if both are identical.

    ``notes``: possible causes of differences. ``hosts``, ``explanation``: host table and explanation of the decision.
    """

    decision: Decision
    hosts: HostTable
    explanation: Explanation
    differences: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NoReplay:
    """A decision that cannot be replayed, with the reason."""

    reason: str


Outcome = Replay | NoReplay


def replay_all(
    connection: Connection,
    engine: Engine,
    configuration: str,
    found: Sequence[StoredDecision],
    aliases: Mapping[str, Alias] | None = None,
) -> Iterator[Outcome]:
    """Yield an outcome for each stored decision, in order. Decisions of one request should be adjacent, for speed.

    ``engine``, ``aliases``: the rules and PCI aliases of the present scheduling configuration. ``configuration``:
    digest of that configuration.
    """
    known: _ReplaySession | NoReplay | None = None
    of: bytes | None = None
    for stored in found:
        if stored.inputs is None or stored.server_index is None:
            yield NoReplay(
                "The inputs of the decision were not stored: a third-party driver or an older release made it."
            )
            continue
        # Decisions of one request have the same inputs, so one session replays all of them. A refusal is stored once,
        # but listed again for every server of its request. So a listed refusal may be older than decisions that the
        # session has already replayed; in that case a new session begins.
        if known is None or of != stored.inputs or (isinstance(known, _ReplaySession) and known.is_past(stored)):
            known, of = (
                _begin(connection, engine, configuration, stored.inputs, aliases or {}),
                stored.inputs,
            )
        try:
            yield known if isinstance(known, NoReplay) else known.replay(stored)
        except RuleFailed as error:
            yield NoReplay(f"The decision fails with the present rules: {error.message}")


def _begin(
    connection: Connection, engine: Engine, configuration: str, stored: bytes, aliases: Mapping[str, Alias]
) -> "_ReplaySession | NoReplay":
    inputs, configured = decode(stored)
    checkpoint = checkpoints.find(connection, inputs.seq)
    if checkpoint is None:
        return NoReplay("The decision is older than the oldest checkpoint.")
    try:
        commits = change_log.between(connection, checkpoint.seq, inputs.seq)
        if commits is None:
            return NoReplay("The change log is incomplete between the checkpoint and the decision.")
        mirror = Mirror.of(checkpoints.read(connection, checkpoint), checkpoint.seq, now=inputs.taken_at)
    except FromNewerRelease as error:
        return NoReplay(error.message)
    mirror.replay(commits)
    for assumption in inputs.assumed:
        mirror.assume(assumption)
    notes = () if configured == configuration else ("The scheduling options have been changed since.",)
    return _ReplaySession(mirror, engine, inputs, notes, aliases)


class _ReplaySession:
    """Replay of one request's decisions, in the order of its servers."""

    def __init__(
        self,
        mirror: Mirror,
        engine: Engine,
        inputs: DecisionInputs,
        notes: tuple[str, ...],
        aliases: Mapping[str, Alias],
    ) -> None:
        spec = with_resources(inputs.spec)
        self._needs = needs_of(spec, aliases)
        self._hosts = mirror.snapshot().with_own_use()
        if inputs.group_uuid is not None:
            spec = replace(spec, group=group_for(spec, mirror.group(inputs.group_uuid), self._hosts))
        seed = inputs.seed
        rng = None if seed is None else np.random.default_rng(seed)
        self._engine = engine
        self._batch = Batch(engine, self._hosts, spec, limit=inputs.limit, rng=rng)
        self._notes = notes
        self._done: list[tuple[Decision, HostTable, Explanation]] = []

    def is_past(self, stored: StoredDecision) -> bool:
        assert stored.server_index is not None
        return stored.server_index + 1 < len(self._done)

    def replay(self, stored: StoredDecision) -> Replay:
        assert stored.server_index is not None
        while len(self._done) <= stored.server_index:
            if self._done:
                best, devices = first_that_gives(self._done[-1][0], self._hosts, self._needs)
                if best is None:
                    break  # with the present rules, an earlier server of the request finds no host
                self._batch.place(best.row, share=devices)
            story = explain(self._hosts, self._batch.spec, self._engine)
            self._done.append((self._batch.decide(), self._hosts, story))
        decision, hosts, story = self._done[-1]
        return Replay(decision, hosts, story, tuple(_differences(stored, decision, hosts)), self._notes)


def _differences(stored: StoredDecision, decision: Decision, hosts: HostTable) -> Iterator[str]:
    """Yield the differences between a stored and a replayed decision, as texts.

    The function compares the remaining hosts, the rules and their counts, the ranking and the scores, and the rejecting
    rule of each host.
    """
    again = body_of(decision, stored.body["chosen"])
    for name in _COMPARED:
        if again[name] != stored.body[name]:
            yield f"{name}: {_shown(stored.body[name], again[name])}"
    if names_of(hosts) != stored.names:
        yield "hosts: not the same as in the stored decision"
    elif decision.removed_by.tobytes() != stored.removed_by:
        count = sum(a != b for a, b in zip(decision.removed_by.tobytes(), stored.removed_by, strict=True))
        yield f"removed by: {count} hosts were rejected by other rules"


def _shown(before: object, now: object) -> str:
    """Return a text for the difference between two values. For lists, the text shows the first differing items."""
    if not isinstance(before, list) or not isinstance(now, list):
        return f"{before}, now {now}"
    for index in range(max(len(before), len(now))):
        one = before[index] if index < len(before) else None
        other = now[index] if index < len(now) else None
        if one != other:
            return f"{_named(one)}, now {_named(other)}"
    return "the same"


def _named(item: object) -> str:
    return "nothing" if item is None else " ".join(map(str, item[:4])) if isinstance(item, list) else str(item)
