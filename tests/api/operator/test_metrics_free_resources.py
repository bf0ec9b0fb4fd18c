# SPDX-License-Identifier: Apache-2.0
"""Counts of free resources: made by one control process at a time, within their budget, and shown at /metrics."""

from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from kilonova.claims.capacity_counts import CAPACITY, N_PLUS_ONE, STRANDED, CapacityCounts, last_counts
from kilonova.db import shared_tasks
from support.control import Control

ALL = (CAPACITY, STRANDED, N_PLUS_ONE)


def counts_of(control: Control, owner: str = "me", *, budget_s: float = 60.0, may_act: bool = True) -> CapacityCounts:
    process = control.process
    engine = process.core.rules.engine
    return CapacityCounts(process.database, process.mirror, engine, {}, owner, 300.0, budget_s, lambda: may_act)


def results(control: Control) -> dict[str, Any]:
    with control.process.database.read() as connection:
        return {name: last.result for name, last in last_counts(connection).items()}


def test_counts_and_their_metrics(control: Control) -> None:
    control.boot(control.admin)
    fits = control.operator.post("/capacity", {}).body["fits"]
    assert counts_of(control).look() == ALL
    found = results(control)
    assert found[CAPACITY] == fits
    assert found[STRANDED].keys() >= {"VCPU", "MEMORY_MB"}
    assert found[N_PLUS_ONE] == {"failing": 0, "complete": True}
    families = text_string_to_metric_families(control.operator.get("/metrics").raw.decode())
    shown = {(each.name, *each.labels.values()): each.value for family in families for each in family.samples}
    assert shown["kilonova_capacity_servers", "flavor1"] == fits["flavor1"]
    assert shown["kilonova_any_host_can_be_lost",] == 1
    assert shown["kilonova_hosts_that_cannot_be_lost",] == 0
    assert shown["kilonova_stranded_share", "VCPU"] == 0
    assert {key[1] for key in shown if key[0] == "kilonova_capacity_count_age_seconds"} == set(ALL)


def test_a_count_is_made_once_an_interval(control: Control) -> None:
    assert counts_of(control, "one").look() == ALL
    assert counts_of(control, "two").look() == ()


def test_another_process_makes_the_count(control: Control) -> None:
    counts = counts_of(control, "two")
    every, lease = counts._interval, counts._interval
    control.process.database.write(lambda tx: shared_tasks.begin(tx, CAPACITY, "one", every=every, lease=lease))
    assert counts.look() == (STRANDED, N_PLUS_ONE)


def test_a_process_without_a_lease_counts_nothing(control: Control) -> None:
    assert counts_of(control, may_act=False).look() == ()
    assert results(control) == {}


def test_what_exceeds_the_budget_is_left_out(control: Control) -> None:
    control.boot(control.admin)
    assert counts_of(control, budget_s=-1.0).look() == ALL
    assert results(control) == {CAPACITY: {}, STRANDED: {}, N_PLUS_ONE: {"failing": 0, "complete": False}}


def test_hosts_that_rules_remove_are_counted(control: Control) -> None:
    control.add_flavor("huge", ram=1_000_000)
    assert control.boot(control.admin, flavorRef="huge")["status"] == "ERROR"
    text = control.operator.get("/metrics").raw.decode()
    assert 'kilonova_hosts_removed_total{rule="Placement: MEMORY_MB"} 2.0' in text
