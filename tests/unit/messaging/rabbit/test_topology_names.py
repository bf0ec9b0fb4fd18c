# SPDX-License-Identifier: Apache-2.0
"""Names and permissions of agents at the broker."""

import re

import pytest

from kilonova.errors import InvalidRequest
from kilonova.messaging.rabbit.topology import (
    RIGHTS_OF_CONTROL,
    agent_user,
    check_agent_name,
    definitions,
    from_agent,
    password_hash,
    rights_of_agent,
    to_agent,
    to_control,
)


@pytest.mark.parametrize("name", ["", ".a", "-a", "a b", "a/b", "a*", "é", "a" * 129, "a\n"])
def test_a_name_that_could_match_other_queues_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match="cannot be named"):
        check_agent_name(name)


def test_an_agent_may_write_to_its_own_exchange_and_read_its_own_queue_only() -> None:
    rights = rights_of_agent("rack.1")
    assert re.search(rights.write, from_agent("rack.1"))
    assert re.search(rights.read, to_agent("rack.1"))
    for other in ("rack-1", "rackx1", "rack.11", "a.rack.1"):
        assert not re.search(rights.write, from_agent(other))
        assert not re.search(rights.read, to_agent(other))
    for name in (from_agent("rack.1"), to_agent("rack.1"), "amq.default", "to"):
        assert not re.search(rights.configure, name)
    assert not re.search(rights.write, to_agent("rack.1"))
    assert not re.search(rights.write, to_control("p"))


@pytest.mark.parametrize("name", ["notifications.info", "to_", "amq.topic", "control."])
def test_a_control_process_may_not_write_to_queues_of_other_services(name: str) -> None:
    assert not re.search(RIGHTS_OF_CONTROL.write, name)


def test_definitions_hold_a_salted_hash_and_nothing_for_a_certificate() -> None:
    assert password_hash("secret") != password_hash("secret")
    told = definitions("/", [agent_user("a", "secret"), agent_user("b", None)], ["a"])
    assert "secret" not in str(told)
    assert told["users"][1]["password_hash"] == ""
    assert {each["name"] for each in told["queues"]} == {to_agent("a"), from_agent("a")}
