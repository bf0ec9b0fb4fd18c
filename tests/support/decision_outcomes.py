# SPDX-License-Identifier: Apache-2.0
"""Outcomes of decisions, which are decisions or errors, and their comparison."""

from collections.abc import Callable

from kilonova.scheduler.decision import Decision
from kilonova.scheduler.engine.kept_decisions import differences

Outcome = Decision | str
"""A decision, or the text of the error that was raised instead."""


def outcome(decide: Callable[[], Decision]) -> Outcome:
    """Call ``decide`` and return its outcome."""
    try:
        return decide()
    except Exception as error:  # noqa: BLE001 - the other decision must fail with the same error
        return f"{type(error).__name__}: {error}"


def assert_same(one: Outcome, other: Outcome) -> None:
    """Require equal errors, or decisions that are equal bit by bit."""
    if isinstance(one, str) or isinstance(other, str):
        assert one == other
    else:
        assert not differences(one, other)
