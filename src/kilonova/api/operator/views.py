# SPDX-License-Identifier: Apache-2.0
"""JSON views of decisions, explanations, hindrances and nearest misses."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from kilonova.api.validation import invalid_parameter
from kilonova.planning.hindrance import Hindrance
from kilonova.scheduler.decision import Decision, RankedHost
from kilonova.scheduler.explanations.changes import Change
from kilonova.scheduler.explanations.explain import Explanation
from kilonova.scheduler.explanations.nearest_miss import NearestMiss
from kilonova.scheduler.host_table import HostTable

JSONDict = dict[str, Any]


def decision_view(decision: Decision, chosen: RankedHost | None) -> JSONDict:
    """Return the view of a decision. For each rule it has the numbers of hosts before and after it, but no names."""
    return {
        "chosen": None if chosen is None else chosen.host,
        "survivors": decision.survivors,
        "forced": decision.forced,
        "steps": [
            {"rule": step.rule, "reason": step.reason, "hosts_in": step.hosts_in, "hosts_out": step.hosts_out}
            for step in decision.steps
        ],
        "ranked": [
            {"host": each.host, "node": each.node, "score": each.score, "weights": dict(each.weights)}
            for each in decision.ranked
        ],
    }


def hindrances_view(found: Iterable[Hindrance]) -> list[JSONDict]:
    """Return why a server was refused: each rule with the number of hosts that it rejects first."""
    return [{"rule": each.rule, "reason": each.reason, "hosts": each.hosts} for each in found]


def rules_view(story: Explanation) -> list[JSONDict]:
    """Return, for each rule, how many of all hosts pass it, how many fail it, and how many fail no other rule."""
    views = []
    for verdict, alone in zip(story.verdicts, story.alone, strict=True):
        passed = int(np.count_nonzero(verdict.passes))
        views.append(
            {
                "rule": verdict.rule,
                "reason": verdict.reason,
                "passed": passed,
                "failed": len(verdict.passes) - passed,
                "only_hindrance": alone,
            }
        )
    return views


def hosts_page(
    hosts: HostTable,
    story: Explanation,
    *,
    limit: int,
    marker: str | None = None,
    name: str | None = None,
    rule: str | None = None,
    passed: bool | None = None,
) -> JSONDict:
    """Return a page of hosts, in the order of ``hosts``, each with the reasons of all rules that reject it.

    Filters: ``name`` is a part of the host's or node's name, in upper or lower case; ``rule`` rejects the host;
    ``passed`` tells whether the host passes all rules. ``marker``: id of the last host of the previous page. In the
    result, ``next_marker`` is None on the last page. Raises: InvalidRequest for an unknown marker.
    """
    wanted = np.ones(len(hosts), dtype=np.bool_)
    if rule is not None:
        failing = [~verdict.passes for verdict in story.verdicts if verdict.rule == rule]
        wanted &= np.logical_or.reduce(failing) if failing else np.zeros_like(wanted)
    if passed is not None:
        wanted &= story.passed == passed
    if marker is not None:
        if marker not in hosts.uuids:
            raise invalid_parameter("marker", marker, "No host has this id.")
        wanted[: hosts.uuids.index(marker) + 1] = False
    rows: Iterable[int] = np.flatnonzero(wanted).tolist()
    if name is not None:
        part = name.lower()
        rows = [row for row in rows if part in hosts.hosts[row].lower() or part in hosts.nodes[row].lower()]
    found = list(rows)
    page = found[:limit]
    return {
        "hosts": [_host_view(hosts, story, row) for row in page],
        "matching_hosts": len(found),
        "next_marker": hosts.uuids[page[-1]] if page and len(found) > limit else None,
    }


def _host_view(hosts: HostTable, story: Explanation, row: int) -> JSONDict:
    return {
        "id": hosts.uuids[row],
        "host": hosts.hosts[row],
        "node": hosts.nodes[row],
        "passed": bool(story.passed[row]),
        "reasons": [{"rule": rule, "reason": reason} for rule, reason in story.reasons(row)],
    }


def nearest_view(misses: Sequence[NearestMiss]) -> list[JSONDict]:
    return [
        {
            "changes": [_change_view(change) for change in miss.changes],
            "size": miss.size,
            "host": miss.host,
            "node": miss.node,
            "fitting": miss.fitting,
            "hindrances": [{"rule": rule, "reason": reason} for rule, reason in miss.hindrances],
        }
        for miss in misses
    ]


def _change_view(change: Change) -> JSONDict:
    return {
        "change": change.kind,
        "of": "request" if change.on_request is not None else "host" if change.host is not None else "aggregate",
        "host": change.host,
        "name": change.name,
        "from": change.old,
        "to": change.new,
        "size": change.size,
        "text": change.text,
    }
