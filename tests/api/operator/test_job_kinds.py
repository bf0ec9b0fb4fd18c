# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.api.operator.family import RULES
from kilonova.api.operator.job_kind import JobKind
from kilonova.api.operator.job_kinds import KINDS


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_kind_has_a_policy_rule_and_a_title(kind: JobKind) -> None:
    assert kind.rule in {rule.name for rule in RULES}
    assert kind.title
    assert len(kind.name) <= 64
