# SPDX-License-Identifier: Apache-2.0
import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import orjson
import pytest

from kilonova.dashboard.upstream.cloud_api import Cloud, Login, Project
from kilonova.dashboard.web.live import MOST_STREAMS_OF_SESSION, HostFeed, TooManyStreams
from kilonova.dashboard.web.sessions import Session, Sessions
from support.dashboards import KEYSTONE, OPERATOR, USAGE, FakeClock, FakeCloud, run

ENDPOINTS = {"kilonova": OPERATOR, "compute": "http://compute.test/v2.1"}


class Watch:
    """A feed, and the session of an operator who watches it."""

    def __init__(self, cloud: FakeCloud, clock: FakeClock, every_s: float = 0.005) -> None:
        self.cloud = cloud
        self.sessions = Sessions(600.0, clock)
        api = Cloud(httpx.AsyncClient(transport=httpx.MockTransport(cloud)), KEYSTONE)
        self.feed = HostFeed(api, self.sessions, lambda hosts: f"<b>{sum(hosts.servers)}</b>\n", every_s)
        self.key = self._begin()
        found = self.sessions.find(self.key)
        assert found is not None
        self.session: Session = found

    def _begin(self) -> str:
        project, until = Project("p", "p", "Default"), datetime.now(UTC) + timedelta(hours=1)
        return self.sessions.begin(Login("the-token-of-root", "root", "root", project, (), until, ENDPOINTS))

    async def next_event(self, events: AsyncIterator[Any]) -> Any:
        while (event := await asyncio.wait_for(anext(events), 5)) is None:
            pass
        return event


def changes(request: httpx.Request) -> Any:
    if "after" not in request.url.params:
        return USAGE
    part = {name: values[:1] for name, values in USAGE.items() if isinstance(values, list)}
    resources = {"VCPU": {"capacity": [8], "used": [8]}, "MEMORY_MB": {"capacity": [4096], "used": [512]}}
    return {**USAGE, **part, "whole": False, "version": "0000aaaa-2", "servers": [9], "resources": resources}


def test_changes_reach_a_page(cloud: FakeCloud, clock: FakeClock) -> None:
    async def follow() -> tuple[Any, Any]:
        watch = Watch(cloud, clock)
        await watch.feed.present(watch.session)
        cloud.answers["GET", "/v1/hosts/usage"] = changes
        events = watch.feed.events(watch.session)
        return await watch.next_event(events), await watch.next_event(events)

    summary, hosts = run(follow())
    assert summary.text == "<b>9</b>"
    assert hosts.event == "hosts"
    assert orjson.loads(hosts.text) == {"rows": [0], "state": [0], "columns": {"VCPU": [100], "MEMORY_MB": [12]}}


def test_changes_that_another_page_has_read_reach_all_pages(cloud: FakeCloud, clock: FakeClock) -> None:
    async def follow() -> Any:
        watch = Watch(cloud, clock, every_s=3600.0)
        await watch.feed.present(watch.session)
        events = watch.feed.events(watch.session)
        following = asyncio.ensure_future(watch.next_event(events))
        while not watch.session.streams:  # noqa: ASYNC110 - the feed has no event for this
            await asyncio.sleep(0)
        cloud.answers["GET", "/v1/hosts/usage"] = changes
        await watch.feed.present(watch.session)
        return await following

    assert run(follow()).text == "<b>9</b>"


def test_a_new_host_makes_pages_load_the_map_again(cloud: FakeCloud, clock: FakeClock) -> None:
    async def follow() -> Any:
        watch = Watch(cloud, clock)
        await watch.feed.present(watch.session)
        return await watch.next_event(watch.feed.events(watch.session))

    assert run(follow()).event == "stale"  # the fake cloud answers with all hosts


def test_streams_end_with_the_session(cloud: FakeCloud, clock: FakeClock) -> None:
    async def follow() -> int:
        watch = Watch(cloud, clock)
        events = watch.feed.events(watch.session)
        await anext(events)
        watch.sessions.end(watch.key)
        async for _ in events:
            pass
        return watch.session.streams

    assert run(asyncio.wait_for(follow(), 10)) == 0


def test_a_refused_token_ends_the_streams(cloud: FakeCloud, clock: FakeClock) -> None:
    async def follow() -> None:
        watch = Watch(cloud, clock)
        events = watch.feed.events(watch.session)
        await anext(events)
        cloud.revoked.add("the-token-of-root")
        async for _ in events:
            pass

    run(asyncio.wait_for(follow(), 10))


def test_a_session_has_a_limited_number_of_streams(cloud: FakeCloud, clock: FakeClock) -> None:
    async def follow() -> None:
        watch = Watch(cloud, clock)
        opened = [watch.feed.events(watch.session) for _ in range(MOST_STREAMS_OF_SESSION)]
        for events in opened:
            await anext(events)
        with pytest.raises(TooManyStreams):
            await anext(watch.feed.events(watch.session))
        for events in opened:
            await events.aclose()  # type: ignore[attr-defined]
        await anext(watch.feed.events(watch.session))

    run(follow())


def test_a_page_that_does_not_read_is_told_to_load_again(cloud: FakeCloud, clock: FakeClock) -> None:
    async def follow() -> list[str | None]:
        watch = Watch(cloud, clock)
        await watch.feed.present(watch.session)
        cloud.answers["GET", "/v1/hosts/usage"] = changes
        events = watch.feed.events(watch.session)
        await watch.next_event(events)
        await asyncio.sleep(0.5)
        return [(await watch.next_event(events)).event for _ in range(3)]

    assert "stale" in run(follow())
