# SPDX-License-Identifier: Apache-2.0
"""Policy diffs over random histories: empty without a change, and under any change what brute force names.

Brute force repeats each request by itself: a mirror from the checkpoint, and the whole engine for each server.
"""

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.unit.claims.test_policy_diff import FILTERS, diff, expected, outcome, rules

from kilonova.claims.policy_diff import PolicyDiff
from kilonova.config.operator import OperatorSettings
from kilonova.db import decisions
from kilonova.planning.policy_change import AggregateChange, PolicyChange
from kilonova.planning.policy_diff import Effect, Verdict
from kilonova.scheduler.engine.rule_change import RuleSet
from support.cell import new_cell
from support.decision_histories import FLAVORS, History, by_hand, some_hosts
from support.samples import sampled

PRESENT = rules(enabled_filters=FILTERS)
MORE_FILTERS = ("NumInstancesFilter", "IoOpsFilter", "AggregateNumInstancesFilter", "TypeAffinityFilter", "RamFilter")
MULTIPLIERS = ("ram", "cpu", "disk", "io_ops", "num_instances", "soft_anti_affinity")
KEY = "aggregate_instance_extra_specs:ssd"


def random_rules(chance: Random) -> RuleSet:
    """Return the present rules with some filters removed and added, and other options."""
    kept = [name for name in FILTERS if chance.random() < 0.8] + [
        name for name in MORE_FILTERS if chance.random() < 0.3
    ]
    options: dict[str, Any] = {f"{name}_weight_multiplier": chance.choice((0.0, 1.0, 2.5)) for name in MULTIPLIERS}
    options["ram_weight_multiplier"] *= chance.choice((1, -1))
    return rules(
        enabled_filters=tuple(kept),
        max_instances_per_host=chance.randint(1, 5),
        max_io_ops_per_host=chance.randint(1, 8),
        enable_isolated_aggregate_filtering=chance.random() < 0.3,
        **options,
    )


def random_flavors(chance: Random) -> PolicyChange:
    specs = ({KEY: "true"}, {KEY: None}, {"resources:VCPU": "3"}, {"resources:MEMORY_MB": "64"})
    chosen = chance.sample(FLAVORS, 2)
    return PolicyChange(flavors={flavor.flavor_id: chance.choice(specs) for flavor in chosen})


def require_causes(found: PolicyDiff) -> None:
    """Check what holds for the rule of every difference."""
    for each in found.differences:
        cause, verdict = each.difference.cause, each.difference.verdict
        assert (cause.effect is Effect.ALLOWS) or verdict is not Verdict.FITS
        assert cause.effect in {Effect.REJECTS, Effect.FAILS} or verdict is not Verdict.FAILS
        assert cause.rule
    assert sum(found.causes.values()) == found.differs == len(found.differences)


@pytest.mark.parametrize("seed", range(sampled(60, sample=2)))
def test_every_change_of_rules_is_what_brute_force_names(seed: int, tmp_path: Path, sqlite_template: Path) -> None:
    chance = Random(seed)
    cell = new_cell(sqlite_template, tmp_path, *some_hosts(chance, chance.randint(3, 9)), engine=PRESENT.engine)
    History(cell, chance, largest=chance.choice((1, 3, 6))).run(12)
    with cell.database.read() as connection:
        for _ in range(4):
            changed = random_rules(chance)
            change = random_flavors(chance) if chance.random() < 0.5 else PolicyChange()
            found = diff(connection, changed, change)
            assert outcome(found) == expected(connection, by_hand(connection, changed.engine, asked=change.asked))
            require_causes(found)
    cell.database.close()


def test_no_change_over_many_decisions_is_empty(tmp_path: Path, sqlite_template: Path) -> None:
    chance = Random(99)
    kept = OperatorSettings(decision_retention=20_000)
    hosts = some_hosts(chance, 60)
    engine, adapt = PRESENT.engine, lambda settings: replace(settings, operator=kept)
    cell = new_cell(sqlite_template, tmp_path, *hosts, engine=engine, adapt=adapt)
    least = sampled(10_000, sample=200)
    story, count = History(cell, chance, largest=12, deleted=0.95), 0
    while count < least:
        story.run(sampled(200, sample=15))
        with cell.database.read() as connection:
            count = len(decisions.newest(connection, least))
    with cell.database.read() as connection:
        found = diff(connection, PRESENT)
        assert (found.differences, found.undecided) == ([], {})
        assert found.decisions == found.verdicts[Verdict.SAME] >= least
    with cell.database.read() as connection:
        edited = diff(connection, PRESENT, PolicyChange(aggregates={10_000: AggregateChange({"a": "b"})}))
        assert edited.verdicts[Verdict.SAME] == found.decisions
    cell.database.close()
