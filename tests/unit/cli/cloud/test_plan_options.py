# SPDX-License-Identifier: Apache-2.0
"""Options of commands that plan moves which need each other."""

import pytest
import typer

from kilonova.cli.cloud.plan_options import require_apply


def test_only_a_plan_that_is_applied_is_waited_for() -> None:
    for wait, apply in ((False, False), (False, True), (True, True)):
        require_apply(wait=wait, apply=apply)
    with pytest.raises(typer.BadParameter, match="--apply"):
        require_apply(wait=True, apply=False)
