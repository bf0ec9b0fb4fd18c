# SPDX-License-Identifier: Apache-2.0
from kilonova.api.former_rules import FORMER, NOT_HERE, former_of
from kilonova.cli.wiring.apis import RULES


def test_a_split_rule_keeps_its_former_name_for_every_part() -> None:
    parts = {name for name, former in FORMER.items() if former.name == "os_compute_api:os-server-password"}
    assert parts == {"os_compute_api:os-server-password:show", "os_compute_api:os-server-password:clear"}


def test_a_former_rule_has_the_former_default() -> None:
    former = former_of("os_compute_api:servers:show:flavor-extra-specs")
    assert former is not None
    assert (former.name, former.check_str) == ("os_compute_api:os-flavor-extra-specs:index", "rule:admin_or_owner")
    assert former_of("os_compute_api:servers:index") is None


def test_no_rule_of_a_missing_feature_is_a_present_or_a_former_one() -> None:
    assert NOT_HERE.isdisjoint(rule.name for rule in RULES)
    assert NOT_HERE.isdisjoint(former.name for former in FORMER.values())
