# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.conductor.workflows.cache_images import CACHE_IMAGES
from kilonova.db import workflows
from kilonova.model.aggregate import Aggregate
from support.cell import NewCell, asker, host


@pytest.mark.parametrize(
    ("at_once", "shares"),
    [
        (1, [("a", "b", "c", "d", "e")]),
        (2, [("a", "c", "e"), ("b", "d")]),
        (9, [("a",), ("b",), ("c",), ("d",), ("e",)]),
    ],
)
def test_hosts_are_divided_among_as_many_workflows_as_run_at_once(
    cell_of: NewCell, at_once: int, shares: list[tuple[str, ...]]
) -> None:
    cell = cell_of(host("a"))
    aggregate = Aggregate(1, "u", "rack", ("a", "b", "c", "d", "e"))
    cell.conductor.operations.image_caching.cache(aggregate, ["image"], asker("req-1"), at_once)
    with cell.database.read() as connection:
        rows = [row for row in workflows.of_instance(connection, "") if row.kind == CACHE_IMAGES.kind]
    facts = [CACHE_IMAGES.run(row).facts for row in rows]
    assert sorted(each.hosts for each in facts) == shares
    assert {each.total for each in facts} == {5}
