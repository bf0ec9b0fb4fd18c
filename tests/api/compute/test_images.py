# SPDX-License-Identifier: Apache-2.0
"""Images as old clients find them at the compute API, with and without an image service."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from api.compute_cloud import MAX_LIMIT, Cloud, start_cloud
from kilonova.errors import InvalidRequest, NotFound
from kilonova.images.proxied import FixedImageProxy, ImageFilter, ProxiedImage
from kilonova.images.source import FixedImages
from kilonova.model.image import Image

SERVER = "5b674f73-0000-4000-8000-000000000001"


@dataclass
class Images:
    """An image service in this process. ``asked``: for what lists were asked, and by which tokens."""

    images: dict[str, ProxiedImage] = field(default_factory=dict)
    asked: list[tuple[ImageFilter, int, str | None, str | None]] = field(default_factory=list)

    def page(self, wanted: ImageFilter, *, limit: int, marker: str | None, token: str | None) -> Sequence[ProxiedImage]:
        self.asked.append((wanted, limit, marker, token))
        return list(self.images.values())[:limit]

    def get(self, image_id: str, *, token: str | None) -> ProxiedImage:
        if image_id not in self.images:
            raise NotFound(f"Image {image_id} could not be found.")
        return self.images[image_id]

    def remove(self, image_id: str, *, token: str | None) -> None:
        del self.images[self.get(image_id, token=token).id]

    def set_properties(self, image: ProxiedImage, properties: Mapping[str, str], *, token: str | None) -> None:
        self.images[image.id] = replace(image, properties=dict(properties))


@pytest.fixture
def images() -> Images:
    properties = {"instance_uuid": SERVER, "auto_disk_config": "no", "os": "linux"}
    times = "2026-01-31T12:00:00Z", "2026-02-01T00:00:00Z"
    return Images(
        {
            "a": ProxiedImage("a", "snapshot", "saving", 64, 1, 7, properties, *times),
            "b": ProxiedImage("b", None, "unheard-of", created_at=times[0]),
        }
    )


@pytest.fixture
def cloud(database_url: str, images: Images) -> Iterator[Cloud]:
    started = start_cloud(database_url, images)
    yield started
    started.database.close()


def links(image_id: str) -> list[dict[str, str]]:
    return [
        {"rel": "self", "href": f"http://cloud/compute/v2.1/images/{image_id}"},
        {"rel": "bookmark", "href": f"http://cloud/compute/images/{image_id}"},
        {
            "rel": "alternate",
            "type": "application/vnd.openstack.image",
            "href": f"http://cloud/compute/images/{image_id}",
        },
    ]


def test_an_image(cloud: Cloud) -> None:
    member = cloud.member.at("2.35")
    assert member.get("/images/a").body["image"] == {
        "id": "a", "name": "snapshot", "links": links("a"), "minRam": 64, "minDisk": 1, "status": "SAVING",
        "progress": 50,
        "metadata": {"instance_uuid": SERVER, "auto_disk_config": "no", "os": "linux"},
        "created": "2026-01-31T12:00:00Z", "updated": "2026-02-01T00:00:00Z", "OS-EXT-IMG-SIZE:size": 7,
        "server": {
            "id": SERVER,
            "links": [
                {"rel": "self", "href": f"http://cloud/compute/v2.1/servers/{SERVER}"},
                {"rel": "bookmark", "href": f"http://cloud/compute/servers/{SERVER}"},
            ],
        },
        "OS-DCF:diskConfig": "MANUAL",
    }  # fmt: skip
    plain = member.get("/images/b").body["image"]
    assert (plain["status"], plain["progress"], plain["updated"]) == ("UNKNOWN", 0, None)
    assert not {"server", "OS-DCF:diskConfig"} & plain.keys()
    assert member.get("/images/c").status == 404
    assert member.delete("/images/b").status == 204
    assert member.delete("/images/b").status == 404


def test_lists(cloud: Cloud, images: Images) -> None:
    member = cloud.member.at("2.35")
    assert member.get("/images").body == {
        "images": [{"id": name, "name": each.name, "links": links(name)} for name, each in images.images.items()]
    }
    page = member.get(
        "/images/detail?limit=1&marker=z&name=n&status=ACTIVE&minRam=1&minDisk=2&changes-since=2026-01-01T00:00:00"
        f"&server=http://cloud/servers/{SERVER}&type=snapshot&property-os=linux&other=1"
    ).body
    assert [image["id"] for image in page["images"]] == ["a"]
    assert "marker=a" in page["images_links"][0]["href"]
    properties = {"os": "linux", "instance_uuid": SERVER, "image_type": "snapshot"}
    wanted = ImageFilter("n", "active", "1", "2", "2026-01-01T00:00:00", properties)
    assert images.asked == [(ImageFilter(), MAX_LIMIT, None, "alice:wonder"), (wanted, 1, "z", "alice:wonder")]
    assert member.get("/images?limit=1000").status == 200
    assert images.asked[-1][1] == MAX_LIMIT
    assert member.get("/images?limit=0").body == {"images": []}
    assert member.get("/images?limit=-1").status == 400


def test_metadata(cloud: Cloud, images: Images) -> None:
    member, path = cloud.member.at("2.38"), "/images/a/metadata"
    before = images.images["a"].properties
    assert member.get(path).body == {"metadata": before}
    assert member.post(path, {"metadata": {"os": "bsd", "new": "1"}}).body == {
        "metadata": {**before, "os": "bsd", "new": "1"}
    }
    assert member.put(path, {"metadata": {"only": "this"}}).body == {"metadata": {"only": "this"}}
    assert member.put(f"{path}/k", {"meta": {"k": "v"}}).body == {"meta": {"k": "v"}}
    assert member.get(f"{path}/k").body == {"meta": {"k": "v"}}
    assert member.delete(f"{path}/only").status == 204
    assert images.images["a"].properties == {"k": "v"}
    assert member.get(f"{path}/only").status == 404
    assert member.delete(f"{path}/only").status == 404
    for method in ("GET", "POST", "PUT"):
        body = None if method == "GET" else {"metadata": {"a": "b"}}
        assert member.send(method, "/images/gone/metadata", body).status == 404


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("metadata/k", {"meta": {"other": "v"}}, "mismatch"),
        ("metadata/k", {"meta": {"k": "v", "l": "v"}}, "meta"),
        ("metadata", {"metadata": {"name": "mine"}}, "metadata.name"),
        ("metadata", {"metadata": {"a/b": "v"}}, "metadata"),
        ("metadata", {"metadata": {"a": 1}}, "metadata"),
        ("metadata", {}, "metadata"),
    ],
)
def test_bad_metadata(cloud: Cloud, images: Images, path: str, body: Any, words: str) -> None:
    before = dict(images.images)
    answer = cloud.member.put(f"/images/a/{path}", body)
    assert answer.status == 400
    assert words in answer.fault[1]
    assert images.images == before


def test_metadata_counts_against_its_quota(cloud: Cloud, images: Images) -> None:
    assert cloud.admin.put("/os-quota-sets/wonder", {"quota_set": {"metadata_items": 3}}).status == 200
    path = "/images/a/metadata"
    assert cloud.member.post(path, {"metadata": {"os": "bsd"}}).status == 200
    assert cloud.member.post(path, {"metadata": {"one": "more"}}).status == 403
    assert images.images["a"].properties["os"] == "bsd"


def test_later_clients_ask_the_image_service(cloud: Cloud) -> None:
    for path, last in (("/images", 35), ("/images/detail", 35), ("/images/a", 35), ("/images/a/metadata", 38)):
        assert cloud.member.at(f"2.{last}").get(path).status == 200
        assert cloud.member.at(f"2.{last + 1}").get(path).status == 404


def test_a_fixed_set_of_images_can_be_looked_at() -> None:
    known = [Image("i", "cirros", properties={"os": "linux"}), Image("j", "other", min_memory_mib=64), Image("k")]
    proxy = FixedImageProxy(FixedImages(known))

    def ids(wanted: ImageFilter, marker: str | None = None) -> list[str]:
        return [image.id for image in proxy.page(wanted, limit=2, marker=marker, token=None)]

    assert ids(ImageFilter()) == ["i", "j"]
    assert ids(ImageFilter(), "j") == ["k"]
    assert ids(ImageFilter(name="other")) == ids(ImageFilter(min_memory_mib="64")) == ["j"]
    assert ids(ImageFilter(properties={"os": "linux"})) == ["i"]
    assert ids(ImageFilter(status="queued")) == []
    with pytest.raises(InvalidRequest, match="marker"):
        ids(ImageFilter(), "gone")
    with pytest.raises(InvalidRequest, match="No image service"):
        proxy.remove("i", token=None)
    with pytest.raises(InvalidRequest, match="No image service"):
        proxy.set_properties(proxy.get("i", token=None), {}, token=None)
    with pytest.raises(NotFound):
        proxy.remove("gone", token=None)
