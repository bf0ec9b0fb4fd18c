# SPDX-License-Identifier: Apache-2.0
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from kilonova.conductor.workflow_engine.listeners import FetchedImages, NotBuilt
from kilonova.errors import Unavailable
from kilonova.model.aggregate import Aggregate
from kilonova.model.flavor import Flavor
from kilonova.model.instance import Instance, VmState
from kilonova.model.request_spec import RequestSpec
from kilonova.notifications.events import AggregateActed, HostFetchedImages, NoHostFound, ServerChanged
from kilonova.notifications.publisher import CachingProgress, Publisher

FLAVOR = Flavor("1", "m1.tiny", 1, 512, 1)
RACK = Aggregate(1, "u", "rack")


class Told:
    """A dispatcher that records what it is told, and by whom it was asked for."""

    is_busy = False

    def __init__(self) -> None:
        self.all: list[tuple[Any, Any]] = []

    def tell(self, resource_event: Any, who: Any) -> None:
        self.all.append((resource_event, who))


def publisher(told: Any, **more: bool) -> Publisher:
    return Publisher(told, **more)


@pytest.mark.parametrize(("updates", "count"), [(True, 1), (False, 0)])
def test_changes_of_servers_are_told_only_on_request(updates: bool, count: int) -> None:
    told = Told()
    changed = ServerChanged(Instance(1, "a", "vm", "p", "u", VmState.ACTIVE, FLAVOR), None, None)
    publisher(told, updates=updates).tell(changed)
    assert len(told.all) == count
    nowhere = Publisher(None, updates=True)
    nowhere.tell(changed)
    assert not nowhere.is_on
    assert not nowhere.is_busy


def test_a_request_of_no_user_names_nobody() -> None:
    told = Told()
    spec = RequestSpec(flavor=FLAVOR, image=None, project_id="p", user_id="", request_id="req-1")
    publisher(told).sought(spec)
    assert told.all[0][1] is None
    publisher(told).not_built(NotBuilt("i", "req-1", "No valid host was found.", "why"))
    resource_event, who = told.all[1]
    assert isinstance(resource_event, NoHostFound)
    assert who.request_id == "req-1"


def fetched(host: str, request_id: str = "req-1") -> FetchedImages:
    return FetchedImages(request_id, RACK, host, ("i",), (), 2)


def progress(told: Told) -> CachingProgress:
    @contextmanager
    def read() -> Any:
        raise Unavailable("The database cannot be reached.")
        yield

    database: Any = SimpleNamespace(read=read)
    return CachingProgress(publisher(told), database)


def test_the_last_host_of_each_request_ends_it_even_without_the_database() -> None:
    told = Told()
    counts = progress(told)
    for host, request in (("a", "req-1"), ("a", "req-2"), ("b", "req-1")):
        counts.fetched(fetched(host, request))
    indexes = [(each.host, each.index) for each, _ in told.all if isinstance(each, HostFetchedImages)]
    assert indexes == [("a", 1), ("a", 1), ("b", 2)]
    ends = [(each, who.request_id) for each, who in told.all if isinstance(each, AggregateActed)]
    assert ends == [(AggregateActed("cache_images", "end", RACK), "req-1")]  # type: ignore[arg-type]


def test_requests_that_never_end_take_a_bounded_amount_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CachingProgress, "_MOST", 2)
    counts = progress(Told())
    for number in range(5):
        counts.fetched(fetched("a", f"req-{number}"))
    assert len(counts._counts) == 2
