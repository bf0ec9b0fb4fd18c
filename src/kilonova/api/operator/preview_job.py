# SPDX-License-Identifier: Apache-2.0
"""Jobs of the kind ``preview``: the answer of ``POST /preview``, which starts such a job if it takes too long."""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy.engine import Connection

from kilonova.api.http import Context
from kilonova.api.operator.bodies.policy_change import AskedPreview
from kilonova.api.operator.diff_job import diff_view, notes_of
from kilonova.api.operator.job_kind import JobKind
from kilonova.api.operator.policy_changes import checked_aggregates
from kilonova.api.operator.schemas.policy_change import PREVIEW
from kilonova.api.policy import ADMIN, rule
from kilonova.api.typed_body import read_typed
from kilonova.claims.policy_diff import Policies, Progress
from kilonova.claims.policy_preview import PolicyPreview, preview
from kilonova.conductor.jobs.job_context import JobContext
from kilonova.db import decisions
from kilonova.scheduler.engine.rule_change import RebuildRules, RuleChange

_BOTH = (("POST", "/operator/v1/preview"), ("POST", "/operator/v1/jobs"))
RULES = (rule("kilonova:preview", ADMIN, "Preview a change of policy", *_BOTH),)
MOST_DECISIONS = 1_000_000


def prepare(ctx: Context, parameters: Any) -> Any:
    """Return the parameters with the ids of the aggregates. Errors: 400 naming the field."""
    asked = read_typed(AskedPreview, parameters)
    return {"asked": parameters, "aggregates": checked_aggregates(ctx, asked)}


def run(context: JobContext, prepared: Any) -> Any:
    """Preview the change on the present cloud."""
    asked, database = read_typed(AskedPreview, prepared["asked"]), context.cloud.database
    now, rebuild = database.clock.seconds(), context.cloud.rebuild_rules
    with database.read(patient=True) as connection:
        return preview_of(connection, now, rebuild, asked, prepared["aggregates"], context.progress)


def preview_of(
    connection: Connection,
    now: float,
    rebuild: RebuildRules,
    asked: AskedPreview,
    aggregates: Mapping[str, int],
    progress: Progress,
) -> dict[str, Any]:
    """Return the answer. ``now``: the time, in epoch seconds. ``aggregates``: reference → id.

    Raises: InvalidRequest naming the field.
    """
    change = asked.change(aggregates)
    policies = Policies(rebuild(RuleChange()), rebuild(change.rules), change)
    oldest = datetime.fromtimestamp(now, UTC).replace(tzinfo=None) - timedelta(days=asked.days)
    places = decisions.newest(connection, MOST_DECISIONS, since=oldest)
    found = preview(connection, policies, places, now, most=asked.listed, progress=progress)
    return {
        "seq": found.seq,
        **_servers_view(found, asked.listed),
        "days": asked.days,
        "requests": {**diff_view(found.requests), "notes": notes_of(found.requests, asked, aggregates)},
    }


def _servers_view(found: PolicyPreview, listed: int) -> dict[str, Any]:
    hosts, rules = found.cloud.hosts, Counter(each.rule for each in found.violations)
    shown = found.violations[:listed]
    return {
        "violations": len(found.violations),
        "rules": [{"rule": name, "servers": count} for name, count in rules.most_common()],
        "servers": [
            {
                "server": each.server.uuid,
                "name": each.server.name,
                "host": hosts.hosts[each.server.row],
                "rule": each.rule,
                "reason": each.reason,
            }
            for each in shown
        ],
    }


KIND = JobKind(
    name="preview",
    title="Preview a change of policy: which servers would violate it, and which requests it would hit",
    parameters=PREVIEW,
    prepare=prepare,
    run=run,
    rule="kilonova:preview",
)
