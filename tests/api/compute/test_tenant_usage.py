# SPDX-License-Identifier: Apache-2.0
"""Usage of projects in hours of servers."""

from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import sqlalchemy as sa

from api.compute_cloud import MAX_LIMIT, Cloud
from kilonova.db.core import tables as t

ALL = "/os-simple-tenant-usage"
PERIOD = "start=2026-01-10T00:00:00&end=2026-01-11T00:00:00"


def server(cloud: Cloud, launched: str | None, terminated: str | None = None, project: str = "wonder") -> str:
    """Have a server that was there from one hour of January to another one: ``9T12`` is noon on the 9th."""
    uuid = cloud.add_server(None, project_id=project)
    if terminated is not None:
        cloud.remove_server(uuid)
    times = {"launched_at": _moment(launched), "terminated_at": _moment(terminated)}
    cloud.database.write(lambda tx: tx.execute(sa.update(t.instances).where(t.instances.c.uuid == uuid).values(times)))
    return uuid


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    day, _, hour = text.partition("T")
    return datetime.fromisoformat(f"2026-01-{int(day):02}") + timedelta(hours=float(hour))


def test_each_server_counts_for_as_long_as_it_was_there(cloud: Cloud) -> None:
    hours = {
        server(cloud, "9T12"): 24,
        server(cloud, "10T6"): 18,
        server(cloud, "9T12", "10T6"): 6,
        server(cloud, "10T6", "10T6.5"): 0.5,
        server(cloud, "10T6", "11T6"): 18,
    }
    for left_out in (("9T0", "10T0"), ("11T0", None), (None, None)):
        server(cloud, *left_out)
    server(cloud, "10T6", project="zoo")
    admin = cloud.admin.at("2.39")
    usage = cloud.member.at("2.39").get(f"{ALL}/wonder?{PERIOD}").body["tenant_usage"]
    assert {each["instance_id"]: each["hours"] for each in usage["server_usages"]} == hours
    total = sum(hours.values())
    assert {name: value for name, value in usage.items() if name != "server_usages"} == {
        "tenant_id": "wonder", "total_hours": total, "total_vcpus_usage": total, "total_local_gb_usage": total,
        "total_memory_mb_usage": total * 512,
        "start": "2026-01-10T00:00:00.000000", "stop": "2026-01-11T00:00:00.000000",
    }  # fmt: skip
    by_project = {each["tenant_id"]: each for each in admin.get(f"{ALL}?{PERIOD}").body["tenant_usages"]}
    # Its servers fill the page, and before 2.40 there is no link to the next one.
    assert {name: each["total_hours"] for name, each in by_project.items()} == {"wonder": total}
    assert len(hours) == MAX_LIMIT


def test_a_server(cloud: Cloud) -> None:
    uuid = server(cloud, "9T12", "10T6")
    (usage,) = cloud.member.get(f"{ALL}/wonder?{PERIOD}").body["tenant_usage"]["server_usages"]
    assert usage == {
        "instance_id": uuid, "name": "vm", "tenant_id": "wonder", "flavor": "m1.tiny", "vcpus": 1, "memory_mb": 512,
        "local_gb": 1, "hours": 6.0, "state": "terminated", "uptime": 18 * 3600,
        "started_at": "2026-01-09T12:00:00.000000", "ended_at": "2026-01-10T06:00:00.000000",
    }  # fmt: skip
    there = server(cloud, "10T12")
    (usage,) = (
        each
        for each in cloud.member.get(f"{ALL}/wonder?{PERIOD}").body["tenant_usage"]["server_usages"]
        if each["instance_id"] == there
    )
    assert (usage["state"], usage["ended_at"]) == ("active", None)
    noon = datetime.fromisoformat("2026-01-10T12:00:00")
    assert usage["uptime"] == pytest.approx((cloud.database.clock.now() - noon).total_seconds(), abs=5)


@pytest.mark.parametrize("detailed", ["", "&detailed=0", "&detailed=1"])
def test_servers_of_all_projects_are_shown_when_asked_for(cloud: Cloud, detailed: str) -> None:
    server(cloud, "9T12")
    (usage,) = cloud.admin.get(f"{ALL}?{PERIOD}{detailed}").body["tenant_usages"]
    assert ("server_usages" in usage) == detailed.endswith("1")


def test_pages_of_servers(cloud: Cloud) -> None:
    wanted = {project: {server(cloud, "9T12", project=project) for _ in range(4)} for project in ("wonder", "zoo")}
    found: dict[str, set[str]] = {"wonder": set(), "zoo": set()}
    answer: Any = cloud.admin.at("2.40").get(f"{ALL}?{PERIOD}&detailed=1&limit=3").body
    pages = 1
    while True:
        for usage in answer["tenant_usages"]:
            found[usage["tenant_id"]] |= {each["instance_id"] for each in usage["server_usages"]}
        if "tenant_usages_links" not in answer:
            break
        (link,) = answer["tenant_usages_links"]
        assert dict(parse_qsl(urlsplit(link["href"]).query))["limit"] == "3"
        answer = cloud.admin.at("2.40").get(f"{ALL}?{urlsplit(link['href']).query}").body
        pages += 1
    assert (found, pages) == (wanted, 3)
    shown = cloud.member.at("2.104").get(f"{ALL}/wonder?{PERIOD}&limit=4").body
    (link,) = shown["tenant_usage_links"]
    assert link["href"].startswith(f"http://cloud/compute/v2.1{ALL}/wonder?")
    assert cloud.member.at("2.104").get(f"{ALL}/wonder?{urlsplit(link['href']).query}").body == {"tenant_usage": {}}


def test_markers_of_others_are_unknown(cloud: Cloud) -> None:
    others = server(cloud, "9T12", project="zoo")
    for marker in (others, "5b674f73-0000-4000-8000-000000000000", "nonsense"):
        assert cloud.member.at("2.40").get(f"{ALL}/wonder?{PERIOD}&marker={marker}").status == 400


def test_who_may_ask(cloud: Cloud) -> None:
    assert cloud.member.get(ALL).status == 403
    assert cloud.member.get(f"{ALL}/zoo?{PERIOD}").status == 403
    assert cloud.as_user("bob", "wonder", "reader").get(f"{ALL}/wonder?{PERIOD}").body == {"tenant_usage": {}}
    assert cloud.admin.get(f"{ALL}/unknown-project?{PERIOD}").body == {"tenant_usage": {}}


def test_periods(cloud: Cloud) -> None:
    server(cloud, "9T12")
    member = cloud.member
    noon = "2026-01-10T12:00:00"
    before_it_starts = (f"start={noon}&end=2026-01-10T00:00:00", f"start={noon}&end={noon}", f"end={noon}")
    for query in (*before_it_starts, "start=yesterday", "start=2026-13-01T00:00:00"):
        assert member.get(f"{ALL}/wonder?{query}").status == 400, query
    for start in ("2026-01-10T00:00:00.5", "2026-01-10 00:00:00.500000"):
        usage = member.get(f"{ALL}/wonder?start={start}&end=2026-01-11T00:00:00").body["tenant_usage"]
        assert usage["start"] == "2026-01-10T00:00:00.500000"
    until_now = member.get(f"{ALL}/wonder?start=2026-01-10T00:00:00&end=2999-01-01T00:00:00").body["tenant_usage"]
    assert datetime.fromisoformat(until_now["stop"]) <= cloud.database.clock.now()
    of_no_time = member.get(f"{ALL}/wonder").body["tenant_usage"]
    assert of_no_time["total_hours"] == 0
    of_the_future = member.get(f"{ALL}/wonder?start=2998-01-01T00:00:00&end=2999-01-01T00:00:00").body["tenant_usage"]
    assert of_the_future["total_hours"] == 0


def test_unknown_parameters(cloud: Cloud) -> None:
    assert cloud.member.at("2.74").get(f"{ALL}/wonder?{PERIOD}&detailed=1&x=y").status == 200
    assert cloud.member.at("2.75").get(f"{ALL}/wonder?{PERIOD}&detailed=1").status == 400
    assert cloud.admin.at("2.75").get(f"{ALL}?{PERIOD}&detailed=1").status == 200
    assert cloud.admin.at("2.75").get(f"{ALL}?{PERIOD}&x=y").status == 400
