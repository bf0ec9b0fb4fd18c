# SPDX-License-Identifier: Apache-2.0
from urllib.parse import parse_qs

from kilonova.network.queries import queries, query_of_link


def test_values_are_encoded() -> None:
    found = list(queries({"name": "a b&c", "shared": True, "fields": ["id", "name"]}))
    assert found == ["?shared=True&fields=id&fields=name&name=a+b%26c"]
    assert list(queries({})) == [""]
    assert list(queries({"fields": ["id"]})) == ["?fields=id"]


def test_a_filter_without_values_matches_nothing() -> None:
    assert list(queries({"id": [], "shared": True})) == []
    assert list(queries({"id": ["a"], "fields": []})) == ["?id=a"]


def test_a_long_query_is_divided_without_loss() -> None:
    ids = [f"{number:036d}" for number in range(1000)]
    found = list(queries({"device_id": ["x", "y"], "id": [*ids, *ids], "fields": ["id"]}))
    assert all(len(query) < 6500 for query in found)
    parts = [parse_qs(query.removeprefix("?")) for query in found]
    assert [each for part in parts for each in part["id"]] == ids
    assert all((part["device_id"], part["fields"]) == (["x", "y"], ["id"]) for part in parts)
    assert len(list(queries({"name": "x" * 9000}))) == 1


def test_the_query_of_a_link() -> None:
    assert query_of_link("https://elsewhere/x/v2.0/ports?limit=2&marker=m") == "?limit=2&marker=m"
