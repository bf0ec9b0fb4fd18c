# SPDX-License-Identifier: Apache-2.0
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from keystoneauth1.exceptions import ConnectFailure

from kilonova.bundled_services.settings import Account
from kilonova.cli.up.seeding import FLAVORS, FirstContents
from kilonova.errors import Unavailable


class Cloud:
    """The flavor and image APIs. ``images``: id → status. ``calls``: the requests that change something."""

    def __init__(self) -> None:
        self.images: dict[str, str] = {}
        self.calls: list[str] = []
        self.flavor_status = 200
        self.is_away = False

    def request(self, url: str, method: str, **arguments: Any) -> Any:
        if self.is_away:
            raise ConnectFailure
        path = url.partition("//")[2].partition("/")[2]
        if method != "GET":
            self.calls.append(f"{method} {path}")
        if path.endswith("flavors"):
            return self._answer(self.flavor_status)
        if method == "GET":
            return self._answer(200, images=[{"id": one, "status": state} for one, state in self.images.items()])
        return self._answer({"POST": 201, "PUT": 204, "DELETE": 204}[method], id="new")

    def _answer(self, status: int, **content: Any) -> Any:
        return SimpleNamespace(status_code=status, text="why", json=lambda: content)


@pytest.fixture
def cloud() -> Cloud:
    return Cloud()


def create(cloud: Cloud, mark: Path) -> None:
    admin: Any = SimpleNamespace(user="admin", password="x", project="admin")
    account: Account = admin
    contents = FirstContents(mark, account, "http://k/v3", "http://c/v2.1", "http://g")
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
