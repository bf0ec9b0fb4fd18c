# SPDX-License-Identifier: Apache-2.0
"""What Glance is asked for on behalf of a user of the compute API, and what its answers mean."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import pytest

from kilonova.errors import Conflict, Forbidden, InvalidRequest, KilonovaError, NotFound, Unavailable
from kilonova.images.glance_proxy import GlanceProxy
from kilonova.images.proxied import ImageFilter, ProxiedImage
from support.http_clients import serving


@dataclass
class Asked:
    method: str
    path: str
    query: dict[str, str]
    token: str
    kind: str
    body: Any


@dataclass
class Glance:
    """Answers one thing after the other, and remembers what it was asked."""

    answers: list[tuple[int, Any]] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        length = int(environ.get("CONTENT_LENGTH") or 0)
        raw = environ["wsgi.input"].read(length) if length else b""
        self.asked.append(
            Asked(
                environ["REQUEST_METHOD"],
                environ["PATH_INFO"],
                dict(parse_qsl(environ["QUERY_STRING"])),
                environ["HTTP_X_AUTH_TOKEN"],
                environ.get("CONTENT_TYPE", ""),
                json.loads(raw) if raw else None,
            )
        )
        status, body = self.answers.pop(0)
        start_response(f"{status} Whatever", [])
        return [] if body is None else [json.dumps(body).encode()]


@pytest.fixture
def glance() -> Iterator[tuple[Glance, GlanceProxy]]:
    stand_in = Glance()
    with serving(stand_in) as server:
        yield stand_in, GlanceProxy(f"http://127.0.0.1:{server.port}/")


def content(image_id: str, **more: Any) -> dict[str, Any]:
    return {"id": image_id, "name": None, "status": "active", "created_at": "2026-01-31T12:00:00Z", **more}


def test_a_page_follows_the_shorter_pages_of_the_service(glance: tuple[Glance, GlanceProxy]) -> None:
    stand_in, proxy = glance
    stand_in.answers += [
        (200, {"images": [content("a"), content("b")], "next": "/v2/images?marker=b"}),
        (200, {"images": [content("c"), content("d")], "next": "/v2/images?marker=d"}),
    ]
    wanted = ImageFilter(
        'a "b", c', "active", "64", "1", "2026-01-01T00:00:00", {"os": "x:y", "limit": "9", "sort": "n"}
    )
    found = proxy.page(wanted, limit=3, marker="z", token="mine")
    assert [image.id for image in found] == ["a", "b", "c"]
    assert [asked.token for asked in stand_in.asked] == ["mine", "mine"]
    assert stand_in.asked[0].query == {
        "name": 'in:"a \\"b\\", c"',
        "status": "active",
        "min_ram": "64",
        "min_disk": "1",
        "updated_at": "gte:2026-01-01T00:00:00",
        "os": "x:y",
        "limit": "3",
        "marker": "z",
    }


def test_an_image_has_its_times_and_every_property(glance: tuple[Glance, GlanceProxy]) -> None:
    stand_in, proxy = glance
    stand_in.answers.append(
        (200, content("a/b", min_ram=1, size=7, updated_at="2026-02-01T00:00:00Z", hw_disk_bus="ide"))
    )
    found = proxy.get("a/b", token="t")
    assert stand_in.asked[0].path == "/v2/images/a/b"
    expected = ("a/b", None, "active", 1, 0, 7, {"hw_disk_bus": "ide"}, "2026-01-31T12:00:00Z", "2026-02-01T00:00:00Z")
    assert found == ProxiedImage(*expected)


def test_properties_are_set_by_one_patch(glance: tuple[Glance, GlanceProxy]) -> None:
    stand_in, proxy = glance
    stand_in.answers.append((200, content("a")))
    image = ProxiedImage("a", properties={"old": "1", "same": "2", "other": "3", "a/b~c": "4", "os_glance_x": "5"})
    proxy.set_properties(image, {"same": "2", "other": "4", "new": "5"}, token="t")
    (asked,) = stand_in.asked
    assert (asked.method, asked.kind) == ("PATCH", "application/openstack-images-v2.1-json-patch")
    assert asked.body == [
        {"op": "remove", "path": "/old"},
        {"op": "remove", "path": "/a~1b~0c"},
        {"op": "add", "path": "/other", "value": "4"},
        {"op": "add", "path": "/new", "value": "5"},
    ]
    proxy.set_properties(image, image.properties, token="t")
    assert len(stand_in.asked) == 1


@pytest.mark.parametrize(
    ("status", "error"),
    [(400, NotFound), (403, Forbidden), (404, NotFound), (409, Conflict), (500, Unavailable), (302, Unavailable)],
)
def test_what_statuses_mean(glance: tuple[Glance, GlanceProxy], status: int, error: type[KilonovaError]) -> None:
    stand_in, proxy = glance
    stand_in.answers.append((status, None))
    with pytest.raises(error):
        proxy.remove("a", token="t")


def test_a_query_or_a_property_that_the_service_refuses_is_the_users_fault(glance: tuple[Glance, GlanceProxy]) -> None:
    stand_in, proxy = glance
    stand_in.answers += [(400, None), (400, None)]
    with pytest.raises(InvalidRequest, match="query"):
        proxy.page(ImageFilter(changed_since="yesterday"), limit=1, marker=None, token="t")
    with pytest.raises(InvalidRequest, match="properties"):
        proxy.set_properties(ProxiedImage("a"), {"a": "b"}, token="t")


def test_a_service_that_is_away_is_unavailable() -> None:
    with pytest.raises(Unavailable):
        GlanceProxy("http://127.0.0.1:9").remove("a", token="t")
