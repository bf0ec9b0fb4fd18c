# SPDX-License-Identifier: Apache-2.0
"""Preview of a change of policy: the present servers that would violate it, and the stored requests that it would hit.

Everything is read in one read transaction, so both parts hold for one change-log number.
"""

from collections.abc import Callable, Iterator, Sequence

from sqlalchemy.engine import Connection

from kilonova.claims.cloud_snapshot import planned_servers
from kilonova.claims.edited_changes import EditedChanges
from kilonova.claims.policy_diff import Policies, PolicyDiff, Progress, policy_diff
from kilonova.db import mirror_source, placed_servers
from kilonova.db.change_log.changes import Change
from kilonova.db.decisions import DecisionPlace
from kilonova.mirror.mirror import Mirror, MirrorCopy
from kilonova.planning.cloud import Cloud
from kilonova.planning.mending import Violation
from kilonova.planning.policy_change import PolicyChange
from kilonova.planning.preview import new_violations
from kilonova.records import dataclass

_CHECKED_EVERY = 500


@dataclass(frozen=True, slots=True)
class PolicyPreview:
    """What a change of policy does. ``seq``: change-log number. ``cloud``: the present cloud after the change.

    ``violations``: the servers that violate a rule because of the change. ``requests``: what becomes of the decisions.
    """

    seq: int
    cloud: Cloud
    violations: Sequence[Violation]
    requests: PolicyDiff


def preview(
    connection: Connection,
    policies: Policies,
    places: Sequence[DecisionPlace],
    now: float,
    *,
    most: int = 1_000,
    progress: Progress = lambda _done, _text: None,
) -> PolicyPreview:
    """Return what a change does to the present servers, and to the decisions at ``places``.

    ``now``: the time, in epoch seconds. ``progress``: called often; it may raise to end the computation.
    """

    def check() -> None:
        progress(0.1, "judging the present servers")

    present, changed = (_copy(connection, change, now, check) for change in (PolicyChange(), policies.change))
    rows, engine = placed_servers.on_hosts(connection), policies.present.engine
    check()
    servers = planned_servers(connection, present.hosts, engine, rows, policies.present.aliases, everything=True)
    before = Cloud(present.hosts, engine, servers, present.groups)
    after = Cloud(changed.hosts, policies.changed.engine, servers, changed.groups)
    violations = new_violations(before, after, check)
    requests = policy_diff(
        connection, policies, places, most=most, progress=lambda done, text: progress(0.2 + 0.8 * done, text)
    )
    return PolicyPreview(changed.seq, after, violations, requests)


def _copy(connection: Connection, change: PolicyChange, now: float, check: Callable[[], None]) -> MirrorCopy:
    """Return the present hosts and groups after a change."""
    loaded = mirror_source.loaded_in(connection)
    edited = EditedChanges(change).edited(loaded.changes)
    return Mirror.of(_checked(edited, check), loaded.seq, now=now).copy()


def _checked(changes: Iterator[Change], check: Callable[[], None]) -> Iterator[Change]:
    for number, change in enumerate(changes):
        if number % _CHECKED_EVERY == 0:
            check()
        yield change
