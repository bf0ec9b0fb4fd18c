# SPDX-License-Identifier: Apache-2.0
import numpy as np

from kilonova.planning.hindrance import DEVICES, DEVICES_REASON, Hindrance, hindrances_of
from kilonova.scheduler.decision import SURVIVED, Decision, RuleCount

STEPS = (RuleCount("RamFilter", "too little memory", 5, 3), RuleCount("Idle", "", 3, 3), RuleCount("Old", "old", 3, 1))
REFUSAL = Decision((), STEPS, np.array([0, 0, 2, 2, SURVIVED], dtype=np.uint8), 1)


def test_rules_count_the_hosts_that_they_reject_first() -> None:
    ram, old = Hindrance("RamFilter", "too little memory", 2), Hindrance("Old", "old", 2)
    assert hindrances_of(REFUSAL) == (ram, old, Hindrance(DEVICES, DEVICES_REASON, 1))


def test_only_some_hosts_are_counted() -> None:
    among = np.array([True, False, False, True, False])
    assert hindrances_of(REFUSAL, among) == (Hindrance("RamFilter", "too little memory", 1), Hindrance("Old", "old", 1))
