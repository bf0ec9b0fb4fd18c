# SPDX-License-Identifier: Apache-2.0
"""Diffs over a log of random decisions are what an independent repetition of each decision says."""

import random
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.claims.policy_diff import Policies, PolicyDiff, policy_diff
from kilonova.cli.wiring.rules import build_engine
from kilonova.config.scheduler import scheduling_digest
from kilonova.db import decisions
from kilonova.db.core import tables as t
from kilonova.planning.policy_change import PolicyChange
from kilonova.planning.policy_diff import Verdict
from kilonova.scheduler.engine.rule_change import RuleSet
from kilonova.scheduler.settings import SchedulerConfig
from support.cell import Cell, NewCell
from support.decision_histories import History, by_hand, some_hosts
from support.samples import sampled

CONFIG = SchedulerConfig()
FILTERS = (*CONFIG.enabled_filters, "AggregateInstanceExtraSpecsFilter", "AggregateMultiTenancyIsolation")


def rules(**options: Any) -> RuleSet:
    config = SchedulerConfig(**options)
    return RuleSet(build_engine(config), digest=scheduling_digest(CONFIG))


PRESENT = rules(enabled_filters=FILTERS)
TURNS = sampled(400, sample=40)


def diff(connection: Connection, changed: RuleSet, change: PolicyChange | None = None, **more: Any) -> PolicyDiff:
    places = decisions.newest(connection, 1_000_000)
    return policy_diff(connection, Policies(PRESENT, changed, change or PolicyChange()), places, **more)


def outcome(found: PolicyDiff) -> dict[str, tuple[str | None, str | None]]:
    """Return for each differing server the hosts before and after."""
    told = {each.instance_uuid: each.difference for each in found.differences}
    return {uuid: (_host(each.before), _host(each.after)) for uuid, each in told.items()}


def _host(place: tuple[str, str] | None) -> str | None:
    return None if place is None else place[0]


def expected(connection: Connection, after: dict[int, str | None]) -> dict[str, tuple[str | None, str | None]]:
    rows = connection.execute(sa.select(t.decisions.c.id, t.decisions.c.instance_uuid, t.decisions.c.body))
    return {
        row.instance_uuid: (row.body["chosen"], after[row.id]) for row in rows if row.body["chosen"] != after[row.id]
    }


def history(cell_of: NewCell, seed: int, turns: int = TURNS) -> Cell:
    chance = random.Random(seed)
    cell = cell_of(*some_hosts(chance, 8), engine=PRESENT.engine)
    History(cell, chance).run(turns)
    return cell


def test_a_diff_names_what_brute_force_names(cell_of: NewCell) -> None:
    cell = history(cell_of, 1)
    with cell.database.read() as connection:
        nothing = diff(connection, PRESENT)
        assert nothing.decisions == nothing.verdicts[Verdict.SAME] > TURNS
        assert (nothing.differences, nothing.undecided, nothing.decided_twice) == ([], {}, 0)
        for changed in (
            rules(enabled_filters=FILTERS[:-1]),
            rules(enabled_filters=FILTERS[:-2]),
            rules(enabled_filters=("ComputeFilter",)),
            rules(enabled_filters=(*FILTERS, "NumInstancesFilter"), max_instances_per_host=1),
            rules(enabled_filters=FILTERS, ram_weight_multiplier=-1.0),
        ):
            found = diff(connection, changed)
            assert outcome(found) == expected(connection, by_hand(connection, changed.engine))
            assert found.differences


def test_the_newest_differences_are_kept(cell_of: NewCell) -> None:
    cell = history(cell_of, 2, turns=20)
    reversed_rules = rules(enabled_filters=FILTERS, ram_weight_multiplier=-1.0)
    with cell.database.read() as connection:
        every = diff(connection, reversed_rules)
        assert len(every.differences) > 2
        for most in (0, 2):
            found = diff(connection, reversed_rules, most=most)
            assert found.differences == every.differences[len(every.differences) - most :]
            assert found.verdicts == every.verdicts
