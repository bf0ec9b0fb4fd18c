# SPDX-License-Identifier: Apache-2.0
"""Jobs of the kind ``diff``: the last stored decisions again under a change of policy. Nothing is changed."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy.engine import Connection

from kilonova.api.http import Context
from kilonova.api.operator.bodies.policy_change import AskedChange, AskedDiff
from kilonova.api.operator.job_kind import JobKind
from kilonova.api.operator.policy_changes import checked_aggregates, unmet
from kilonova.api.operator.schemas.policy_change import DIFF
from kilonova.api.policy import ADMIN, rule
from kilonova.api.typed_body import read_typed
from kilonova.claims.policy_diff import Policies, PolicyDiff, Progress, StoredDifference, policy_diff
from kilonova.conductor.jobs.job_context import JobContext
from kilonova.db import decisions, mirror_source
from kilonova.planning.policy_diff import Verdict
from kilonova.scheduler.engine.rule_change import RebuildRules, RuleChange

RULES = (
    rule("kilonova:diff", ADMIN, "Repeat stored decisions under a change of policy", ("POST", "/operator/v1/jobs")),
)


def prepare(ctx: Context, parameters: Any) -> Any:
    """Return the parameters with the ids of the aggregates. Errors: 400 naming the field."""
    asked = read_typed(AskedDiff, parameters)
    return {"asked": parameters, "aggregates": checked_aggregates(ctx, asked)}


def run(context: JobContext, prepared: Any) -> Any:
    """Decide the stored decisions again."""
    asked = read_typed(AskedDiff, prepared["asked"])
    with context.cloud.database.read(patient=True) as connection:
        return diff_of(connection, context.cloud.rebuild_rules, asked, prepared["aggregates"], context.progress)


def diff_of(
    connection: Connection,
    rebuild: RebuildRules,
    asked: AskedDiff,
    aggregates: Mapping[str, int],
    progress: Progress,
    rules: RuleChange | None = None,
) -> dict[str, Any]:
    """Return the answer. ``aggregates``: reference → id. ``rules``: replaces the change of rules of ``asked``.

    Raises: InvalidRequest naming the field.
    """
    change = asked.change(aggregates, rules)
    policies = Policies(rebuild(RuleChange()), rebuild(change.rules), change)
    places = decisions.newest(connection, asked.last)
    found = policy_diff(connection, policies, places, most=asked.listed, progress=progress)
    notes = [*notes_of(found, asked, aggregates), *_short(found, asked)]
    return {"seq": mirror_source.seq_in(connection), **diff_view(found), "notes": notes}


def diff_view(found: PolicyDiff) -> dict[str, Any]:
    """Return the view of a diff."""
    return {
        "decisions": found.decisions,
        "counts": {verdict.value: found.verdicts[verdict] for verdict in Verdict},
        "undecided": [{"reason": reason, "decisions": count} for reason, count in found.undecided.most_common()],
        "decided_twice": found.decided_twice,
        "outdated": found.outdated,
        "rules": _rules_view(found),
        "differences": [_difference_view(each) for each in found.differences],
    }


def _rules_view(found: PolicyDiff) -> list[dict[str, Any]]:
    """Return for each rule how many decisions of each verdict it makes different, most first."""
    total: dict[str, int] = {}
    for (name, _), count in found.causes.items():
        total[name] = total.get(name, 0) + count
    shown = [verdict for verdict in Verdict if verdict is not Verdict.SAME]
    return [
        {"rule": name, **{verdict.value: found.causes[name, verdict] for verdict in shown}}
        for name in sorted(total, key=lambda name: (-total[name], name))
    ]


def _difference_view(each: StoredDifference) -> dict[str, Any]:
    difference = each.difference
    return {
        "server": each.instance_uuid,
        "request_id": each.request_id,
        "created_at": _time(each.created_at),
        "seq": each.seq,
        "move": each.move,
        "verdict": difference.verdict.value,
        "from": None if difference.before is None else difference.before[0],
        "to": None if difference.after is None else difference.after[0],
        "rule": difference.cause.rule,
        "effect": difference.cause.effect.value,
        "reason": difference.cause.reason,
    }


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def notes_of(found: PolicyDiff, asked: AskedChange, aggregates: Mapping[str, int]) -> list[str]:
    """Return what the operator must know about the answer."""
    unused = [name for name in asked.flavors if not found.flavors[name]]
    notes = [f"No decision that was looked at is for the flavor {name}." for name in unused]
    if found.decisions:
        missing = [f"aggregate {name}" for name in unmet(asked, aggregates, found.aggregates)]
        missing += [f"host {name}" for name in asked.hosts if name not in found.hosts]
        notes += [f"The {name} did not exist at the time of any of the decisions." for name in missing]
    if found.decided_twice:
        notes.append(
            f"{found.decided_twice} decisions were made under other options than the present ones, so they are compared"
            f" with what the present options decide; {found.outdated} of them were decided otherwise at the time."
        )
    return notes


def _short(found: PolicyDiff, asked: AskedDiff) -> list[str]:
    if found.decisions >= asked.last:
        return []
    return [f"Only {found.decisions} decisions are stored ([operator] decision_retention)."]


KIND = JobKind(
    name="diff",
    title="Repeat stored decisions under a change of policy: which servers would go elsewhere, find no host, or fit",
    parameters=DIFF,
    prepare=prepare,
    run=run,
    rule="kilonova:diff",
)
