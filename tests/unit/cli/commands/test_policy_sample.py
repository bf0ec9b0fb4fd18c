# SPDX-License-Identifier: Apache-2.0
from types import SimpleNamespace
from typing import Any

import yaml

from kilonova.cli.commands.policy_sample import sample_text


def rule(name: str, description: str = "", former: str | None = None, **more: Any) -> Any:
    deprecated = None if former is None else SimpleNamespace(name=former)
    return SimpleNamespace(
        name=name, description=description, check_str="role:admin", deprecated_rule=deprecated, **more
    )


def test_a_sample_is_comments_only_and_valid_yaml_without_their_signs() -> None:
    rules = [
        rule("compute:servers:show", "Show " * 50, operations=[{"method": "GET", "path": "/servers/{id}"}]),
        rule("context_is_admin"),
    ]
    text = sample_text(rules)
    assert all(line.startswith("#") for line in text.splitlines() if line)
    assert max(map(len, text.splitlines())) <= 120
    assert "# GET  /servers/{id}" in text
    chosen = "\n".join(line[1:] for line in text.splitlines() if line.startswith('#"'))
    assert yaml.safe_load(chosen) == {"compute:servers:show": "role:admin", "context_is_admin": "role:admin"}


def test_a_former_rule_is_named_only_if_it_was_one_that_operators_could_set() -> None:
    former = "Formerly a part of os_compute_api:servers."
    assert former in sample_text([rule("compute:servers:show", former="os_compute_api:servers")])
    for name in ("compute:servers:show", "rule:admin_api", "admin_api"):
        assert "Formerly" not in sample_text([rule("compute:servers:show", former=name)])
