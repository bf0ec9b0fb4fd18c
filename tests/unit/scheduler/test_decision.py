# SPDX-License-Identifier: Apache-2.0
import numpy as np

from kilonova.scheduler.decision import SURVIVED, Decision, RuleCount

DECISION = Decision(
    (),
    (
        RuleCount("RamRule", "too little memory", 5, 2),
        RuleCount("Idle", "", 2, 2),
        RuleCount("Zone", "elsewhere", 2, 1),
    ),
    np.array([0, 0, 0, 2, SURVIVED], dtype=np.uint8),
    1,
)


def test_rules_that_removed_no_host_are_left_out() -> None:
    assert DECISION.rejected == {"RamRule": 3, "Zone": 1}
    assert DECISION.summary() == "RamRule: 3 of 5 hosts, Zone: 1 of 2 hosts"
