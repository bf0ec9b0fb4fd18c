# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.api.usage_history import HostUsage, UsageHistory

HOSTS = 4
USAGE = HostUsage(
    seq=1,
    hosts=("a", "b", "c", "d"),
    nodes=("a", "b", "c", "d"),
    zones=("nova",) * HOSTS,
    classes=("VCPU", "MEMORY_MB"),
    capacity=np.full((HOSTS, 2), 10),
    used=np.zeros((HOSTS, 2), np.int64),
    servers=np.zeros(HOSTS, np.int64),
    up=np.ones(HOSTS, np.bool_),
    disabled=np.zeros(HOSTS, np.bool_),
)
COLUMNS = ("capacity", "used", "servers", "up", "disabled")


@given(st.lists(st.tuples(st.sampled_from(COLUMNS), st.integers(0, HOSTS - 1)), max_size=6))
def test_exactly_the_hosts_that_differ_have_changed(changes: list[tuple[str, int]]) -> None:
    columns = {name: getattr(USAGE, name).copy() for name in COLUMNS}
    for name, row in changes:
        if columns[name].dtype == np.bool_:
            columns[name][row] = not getattr(USAGE, name)[row]
        else:
            columns[name][row, ...] += 1
    rows = replace(USAGE, **columns).changed_since(USAGE)
    assert rows is not None
    assert rows.tolist() == sorted({row for _, row in changes})


def test_another_zone_is_a_change() -> None:
    rows = replace(USAGE, zones=("nova", "nova", "east", "nova")).changed_since(USAGE)
    assert rows is not None
    assert rows.tolist() == [2]


@pytest.mark.parametrize("change", [{"hosts": ("a", "b", "c", "e")}, {"nodes": ("x",) * 4}, {"classes": ("VCPU",)}])
def test_other_hosts_or_classes_are_another_table(change: dict[str, tuple[str, ...]]) -> None:
    assert replace(USAGE, **change).changed_since(USAGE) is None


def test_few_answers_are_remembered() -> None:
    history = UsageHistory()
    versions = [history.add(replace(USAGE, seq=seq)) for seq in range(6)]
    assert len(set(versions)) == 6
    assert history.find(versions[0]) is None
    last = history.find(versions[-1])
    assert last is not None
    assert last.seq == 5
    assert UsageHistory().find(versions[-1]) is None
