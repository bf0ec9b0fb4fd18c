# SPDX-License-Identifier: Apache-2.0
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from kilonova.errors import NotFound, Unavailable
from kilonova.images.glance import GlanceImages, image_of
from kilonova.model.image import Image


class Glance(ThreadingHTTPServer):
    """Answers like an image service, and remembers what it was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, Any]] = {}
        self.asked: list[tuple[str, str | None]] = []
        self.busy = 0
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        glance: Any = self.server
        glance.asked.append((self.path, self.headers.get("X-Auth-Token")))
        status, body = glance.answers.get(self.path, (404, {}))
        if glance.busy:
            status, glance.busy = 503, glance.busy - 1
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def glance() -> Iterator[Glance]:
    server = Glance()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def images_of(glance: Glance, now: list[float]) -> GlanceImages:
    return GlanceImages(f"http://127.0.0.1:{glance.server_address[1]}/", clock=lambda: now[0])


def test_properties_are_what_the_api_does_not_define() -> None:
    image = image_of(
        {
            "id": "i", "name": "cirros", "status": "active", "min_ram": 64, "min_disk": 1, "size": 7, "checksum": "x",
            "tags": [], "disk_format": "qcow2", "container_format": "bare", "hw_vif_model": "e1000", "os_distro": None,
            "numa_nodes": 2,
        }
    )  # fmt: skip
    assert image == Image(
        "i", "cirros", "active", "qcow2", "bare", 64, 1, 7, {"hw_vif_model": "e1000", "numa_nodes": "2"}
    )


def test_an_image_that_is_still_queued() -> None:
    image = image_of({"id": "i", "name": None, "status": "queued", "size": None, "disk_format": None})
    assert (image.name, image.status, image.size_bytes) == ("", "queued", 0)


def test_the_answer_is_kept_for_a_moment_and_for_one_project(glance: Glance) -> None:
    now = [0.0]
    images = images_of(glance, now)
    glance.answers["/v2/images/i"] = 200, {"id": "i", "status": "active"}
    for _ in range(3):
        assert images.get("i", token="t", project_id="p").id == "i"
    assert glance.asked == [("/v2/images/i", "t")]
    images.get("i", token="other", project_id="q")
    now[0] = 6.0
    images.get("i", token="t", project_id="p")
    assert [token for _, token in glance.asked] == ["t", "other", "t"]


@pytest.mark.parametrize("status", [400, 403, 404])
def test_what_the_caller_may_not_see_is_not_there(glance: Glance, status: int) -> None:
    glance.answers["/v2/images/i"] = status, {}
    with pytest.raises(NotFound):
        images_of(glance, [0.0]).get("i", token=None, project_id="p")


@pytest.mark.parametrize("status", [401, 500, 503])
def test_a_service_that_fails_is_unavailable_and_nothing_is_kept(glance: Glance, status: int) -> None:
    images = images_of(glance, [0.0])
    glance.answers["/v2/images/i"] = status, {}
    with pytest.raises(Unavailable):
        images.get("i", token="t", project_id="p")
    glance.answers["/v2/images/i"] = 200, {"id": "i", "status": "active"}
    assert images.get("i", token="t", project_id="p").id == "i"


def test_a_service_that_is_busy_for_a_moment_is_asked_again(glance: Glance) -> None:
    glance.answers["/v2/images/i"] = 200, {"id": "i", "status": "active"}
    glance.busy = 2
    assert images_of(glance, [0.0]).get("i", token="t", project_id="p").id == "i"
    assert len(glance.asked) == 3


def test_names_with_slashes_do_not_leave_the_collection(glance: Glance) -> None:
    with pytest.raises(NotFound):
        images_of(glance, [0.0]).get("../../v3/auth", token="t", project_id="p")
    assert glance.asked == [("/v2/images/..%2F..%2Fv3%2Fauth", "t")]


def test_nobody_there() -> None:
    with pytest.raises(Unavailable):
        GlanceImages("http://127.0.0.1:9").get("i", token="t", project_id="p")


def test_images_are_found_by_name(glance: Glance) -> None:
    images = images_of(glance, [0.0])
    listed = [{"id": "i", "name": 'a "b"', "status": "active"}, {"id": "j", "name": "other", "status": "active"}]
    glance.answers["/v2/images?name=in:%22a%20%5C%22b%5C%22%22"] = 200, {"images": listed}
    assert [image.id for image in images.named('a "b"', token="t", project_id="p")] == ["i"]
    glance.answers["/v2/images?name=in:%22x%22"] = 503, {}
    with pytest.raises(Unavailable):
        images.named("x", token="t", project_id="p")


def test_all_images_are_listed_page_by_page_and_hidden_ones_too(glance: Glance) -> None:
    first, hidden = (f"/v2/images?visibility=all&os_hidden={value}" for value in ("false", "true"))
    glance.answers[first] = 200, {"images": [{"id": "a", "status": "active"}], "next": "/v2/images?marker=a"}
    glance.answers["/v2/images?marker=a"] = 200, {"images": [{"id": "b", "status": "queued", "k": "v"}]}
    glance.answers[hidden] = 200, {"images": [{"id": "c", "status": "active"}]}
    listed = images_of(glance, [0.0]).list(token="t")
    assert [(image.id, image.status, dict(image.properties)) for image in listed] == [
        ("a", "active", {}),
        ("b", "queued", {"k": "v"}),
        ("c", "active", {}),
    ]
    assert {token for _, token in glance.asked} == {"t"}
    glance.answers[hidden] = 500, {}
    with pytest.raises(Unavailable):
        images_of(glance, [0.0]).list(token="t")
