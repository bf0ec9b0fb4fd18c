# SPDX-License-Identifier: Apache-2.0
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from keystoneauth1.exceptions import ConnectFailure

from kilonova.bundled_services.settings import Account
from kilonova.cli.up.first_image import FirstImage, has_linux, mark_of
from kilonova.cli.up.seeding import FLAVORS, FirstContents
from kilonova.cli.up.tiny_image import SIZE_BYTES
from kilonova.errors import Unavailable


class Cloud:
    """The flavor and image APIs. ``images``: id → status. ``calls``: the requests that change something."""

    def __init__(self) -> None:
        self.images: dict[str, str] = {}
        self.calls: list[str] = []
        self.flavor_status = 200
        self.is_away = False
        self.uploaded = b""

    def request(self, url: str, method: str, **arguments: Any) -> Any:
        if self.is_away:
            raise ConnectFailure
        path = url.partition("//")[2].partition("/")[2]
        if method != "GET":
            self.calls.append(f"{method} {path}")
        if path.endswith("flavors"):
            return self._answer(self.flavor_status)
        if path.endswith("file"):
            self.uploaded = arguments["data"]
        if method == "GET":
            return self._answer(200, images=[{"id": one, "status": state} for one, state in self.images.items()])
        return self._answer({"POST": 201, "PUT": 204, "DELETE": 204}[method], id="new")

    def _answer(self, status: int, **content: Any) -> Any:
        return SimpleNamespace(status_code=status, text="why", json=lambda: content)


@pytest.fixture
def cloud() -> Cloud:
    return Cloud()


def create(cloud: Cloud, mark: Path, image: FirstImage = FirstImage()) -> None:  # noqa: B008
    admin: Any = SimpleNamespace(user="admin", password="x", project="admin")
    account: Account = admin
    contents = FirstContents(mark, account, "http://k/v3", "http://c/v2.1", "http://g", image)
    contents._session = cloud  # type: ignore[assignment]
    contents.create(lambda: None)


def test_an_upload_that_was_interrupted_is_replaced_and_a_whole_image_kept(cloud: Cloud, tmp_path: Path) -> None:
    cloud.images = {"half": "queued"}
    create(cloud, tmp_path / "mark")
    assert cloud.calls[len(FLAVORS) :] == ["DELETE v2/images/half", "POST v2/images", "PUT v2/images/new/file"]
    cloud.calls, cloud.images, cloud.flavor_status = [], {"whole": "active"}, 409
    create(cloud, tmp_path / "mark")
    assert len(cloud.calls) == len(FLAVORS)
    assert (tmp_path / "mark").exists()


@pytest.mark.parametrize("is_away", [True, False])
def test_a_cloud_that_is_not_filled_has_no_mark(cloud: Cloud, tmp_path: Path, *, is_away: bool) -> None:
    cloud.is_away, cloud.flavor_status = is_away, 500
    with pytest.raises(Unavailable):
        create(cloud, tmp_path / "mark")
    assert not (tmp_path / "mark").exists()


def test_the_first_image_is_the_small_linux_if_one_is_given(cloud: Cloud, tmp_path: Path) -> None:
    file = tmp_path / "guest.qcow2"
    file.write_bytes(b"Linux")
    create(cloud, mark_of(tmp_path), FirstImage(file))
    assert cloud.uploaded == b"Linux"
    assert has_linux(tmp_path)
    create(cloud, mark_of(tmp_path))
    assert len(cloud.uploaded) == SIZE_BYTES
    assert not has_linux(tmp_path)
