# SPDX-License-Identifier: Apache-2.0
import io
from typing import Any

import pytest

from kilonova.errors import Conflict, Forbidden, KilonovaError, NotFound, Unavailable
from kilonova.images import glance_data
from kilonova.images.glance_data import GlanceData


class Answer:
    def __init__(self, status: int, content: Any = None, **headers: str) -> None:
        self.status_code = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.raw = io.BytesIO(b"data")
        self._content = content
        self.closed = False

    def json(self) -> Any:
        return self._content

    def close(self) -> None:
        self.closed = True


class Glance:
    """Answers one request after the other. An upload reads the body first."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.invalidated = 0

    def request(self, _path: str, method: str, **more: Any) -> Answer:
        self.asked.append((method, more))
        if "data" in more:
            b"".join(more["data"])
        return self.answers.pop(0)

    def invalidate(self) -> None:
        self.invalidated += 1


def store(monkeypatch: pytest.MonkeyPatch, glance: Glance) -> GlanceData:
    monkeypatch.setattr(glance_data, "Endpoints", lambda _session, _urls: glance)
    session: Any = glance
    return GlanceData(session, "http://glance")


def test_a_store_that_ignores_a_range_begins_at_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    glance = Glance(Answer(206, Content_Length="4", Content_Range="bytes 3-6/7"), Answer(200))
    images = store(monkeypatch, glance)
    part, whole = images.read("i", 3), images.read("i", 3)
    assert (part.start, part.size_bytes, part.content_range) == (3, 4, "bytes 3-6/7")
    assert (whole.start, whole.size_bytes) == (0, None)
    assert b"".join(whole) == b"data"
    assert glance.asked[0][1]["headers"]["Range"] == "bytes=3-"


@pytest.mark.parametrize(
    ("status", "error"),
    [(204, Conflict), (404, NotFound), (410, NotFound), (403, Forbidden), (409, Conflict), (503, Unavailable),
     (302, Unavailable)],
)  # fmt: skip
def test_each_refusal_of_a_download_is_an_error_of_its_own(
    monkeypatch: pytest.MonkeyPatch, status: int, error: type[KilonovaError]
) -> None:
    answer = Answer(status)
    with pytest.raises(error):
        store(monkeypatch, Glance(answer)).read("i")
    assert answer.closed


def test_an_upload_is_whole_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def glance(size: int) -> Glance:
        image = {"size": size, "os_hash_algo": "sha512", "os_hash_value": "5a"}
        return Glance(Answer(200, {"status": "queued"}), Answer(204), Answer(200, image))

    stored = store(monkeypatch, glance(5)).write("i", io.BytesIO(b"bytes"), 5)
    assert (stored.size_bytes, stored.hash_algo, stored.hash_value) == (5, "sha512", "5a")
    with pytest.raises(Conflict, match=r"has 4 bytes.* 5 bytes"):
        store(monkeypatch, glance(4)).write("i", io.BytesIO(b"bytes"), None)
    with pytest.raises(Conflict, match="is active"):
        store(monkeypatch, Glance(Answer(200, {"status": "active"}))).write("i", io.BytesIO(b"bytes"), 5)


def test_a_token_that_was_refused_during_an_upload_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    glance = Glance(Answer(200, {"status": "queued"}), Answer(401))
    with pytest.raises(Unavailable):
        store(monkeypatch, glance).write("i", io.BytesIO(b"bytes"), 5)
    assert glance.invalidated == 1
