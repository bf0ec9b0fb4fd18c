# SPDX-License-Identifier: Apache-2.0
"""The codec of workflow facts: upgrades of older versions, defaults, and refusals."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from kilonova.conductor.workflow_engine import facts as codec
from kilonova.conductor.workflow_engine.facts import UnknownFactsError


@dataclass(frozen=True)
class Trip:
    """The facts of today: version 3."""

    host: str
    seats: tuple[int, ...] = ()


def _name_the_host(stored: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"host": stored["node"], "seat": stored["seat"]}


def _allow_more_seats(stored: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"host": stored["host"], "seats": [stored["seat"]]}


UPGRADES = (_name_the_host, _allow_more_seats)


def test_facts_of_every_earlier_version_are_brought_up() -> None:
    expected = Trip("a", (7,))
    assert codec.decode({"version": 1, "node": "a", "seat": 7}, Trip, UPGRADES) == expected
    assert codec.decode({"version": 2, "host": "a", "seat": 7}, Trip, UPGRADES) == expected
    assert codec.decode(codec.encode(expected, UPGRADES), Trip, UPGRADES) == expected
    assert codec.encode(expected, UPGRADES)["version"] == 3


def test_a_field_of_a_later_release_is_ignored_and_a_missing_one_has_its_default() -> None:
    assert codec.decode({"version": 3, "host": "a", "wheels": 4}, Trip, UPGRADES) == Trip("a")


@pytest.mark.parametrize(
    "stored",
    [
        {"host": "a"},
        {"version": 0, "host": "a"},
        {"version": 4, "host": "a"},
        {"version": "3", "host": "a"},
        {"version": 3},
        {"version": 3, "host": 5},
        {"version": 3, "host": "a", "seats": "many"},
    ],
)
def test_what_cannot_be_read_says_so(stored: Mapping[str, Any]) -> None:
    with pytest.raises(UnknownFactsError):
        codec.decode(stored, Trip, UPGRADES)


@pytest.mark.parametrize(
    "damaged",
    [
        {"version": 1, "node": "a"},
        {"version": 2, "host": "a"},
    ],
)
def test_facts_that_an_upgrade_cannot_bring_up_cannot_be_read(damaged: Mapping[str, Any]) -> None:
    with pytest.raises(UnknownFactsError):
        codec.decode(damaged, Trip, UPGRADES)
