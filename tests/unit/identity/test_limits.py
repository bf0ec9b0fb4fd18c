# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from kilonova.errors import Unavailable
from kilonova.identity.limits import OutsideLimits, StoredLimits, Unlimited
from kilonova.model.quota import NO_LIMITS, NestedLimits, QuotaTree


class Driver:
    """A quota driver that returns or raises ``said``."""

    def __init__(self, said: Any) -> None:
        self.said = said

    def of_project(self, _project_id: str) -> Any:
        if isinstance(self.said, Exception):
            raise self.said
        return self.said

    def defaults(self) -> Any:
        return self.of_project("")


def test_the_database_has_the_limits_unless_they_are_switched_off() -> None:
    assert (StoredLimits().of_project("p"), StoredLimits().defaults()) == (None, None)
    assert Unlimited().of_project("p") == Unlimited().defaults() == NO_LIMITS


def test_a_resource_that_a_driver_does_not_name_is_unlimited_and_numbers_may_be_texts() -> None:
    limits = OutsideLimits(Driver({"cores": "20"}))
    assert limits.of_project("p") == {**NO_LIMITS, "cores": 20}
    assert OutsideLimits(Driver(None)).defaults() is None
    assert limits.is_read_only, "the compute API cannot know how to write to it"


@pytest.mark.parametrize("said", [{"cores": "many"}, {"cores": None}, ["cores"], ZeroDivisionError()])
def test_a_driver_that_fails_makes_the_limits_unavailable(said: Any, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(Unavailable, match="are not available at present"):
        OutsideLimits(Driver(said)).of_project("p")
    assert "Driver" in caplog.text


def test_a_driver_may_say_itself_that_it_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="The billing system is down"):
        OutsideLimits(Driver(Unavailable("The billing system is down."))).of_project("p")


def test_an_external_driver_may_nest_limits() -> None:
    class Nested(Driver):
        def tree_of(self, project_id: str) -> Any:
            tree = {"name": "department 7", "projects": ["q"], "limits": {"cores": "30"}}
            return {"p": tree, "bad": {"projects": 5, "limits": {}}}.get(project_id)

    limits = OutsideLimits(Nested({"cores": 20}))
    nested = limits.of_project("p")
    assert isinstance(nested, NestedLimits)
    assert nested == {**NO_LIMITS, "cores": 20}
    assert nested.tree == QuotaTree("department 7", frozenset({"p", "q"}), {**NO_LIMITS, "cores": 30})
    assert not isinstance(limits.of_project("alone"), NestedLimits)
    with pytest.raises(Unavailable, match="not available"):
        limits.of_project("bad")
