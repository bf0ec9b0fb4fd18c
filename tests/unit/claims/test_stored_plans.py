# SPDX-License-Identifier: Apache-2.0
"""Stored requests of drains are those that were made."""

from kilonova.claims.stored_plans import drain_parameters, drain_request
from kilonova.model.move_plan import How
from kilonova.planning.drain import DrainRequest
from kilonova.planning.plan import Limits


def test_a_stored_request_is_the_same_request() -> None:
    asked = DrainRequest(frozenset({"node2", "node1"}), How.COLD, Limits(2, None, 7.5), locked_too=True)
    assert drain_request(drain_parameters(asked)) == asked
