# SPDX-License-Identifier: Apache-2.0
"""Backup of a running cloud and its restore in another folder: servers, tokens, images, passwords."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.stock_cloud import StockCloud
from support.supervisor import Supervisor
from support.waiting import wait_until

pytestmark = pytest.mark.cloud


@pytest.fixture
def clouds(tmp_path: Path) -> Iterator[tuple[Supervisor, Supervisor]]:
    pair = Supervisor(tmp_path / "data"), Supervisor(tmp_path / "elsewhere")
    yield pair
    for each in pair:
        if hasattr(each, "process"):
            each.stop()


def compute(cloud: Supervisor) -> str:
    return f"http://127.0.0.1:{cloud.ports[0]}/compute/v2.1"


def test_a_saved_cloud_comes_back_in_another_folder(clouds: tuple[Supervisor, Supervisor], tmp_path: Path) -> None:
    first, second = clouds
    first.start().until_ready()
    session = first.session()
    (image,) = first.images()
    data = session.get(f"{first.image}/images/{image['id']}/file").content
    flavor = next(
        each for each in session.get(f"{compute(first)}/flavors").json()["flavors"] if each["name"] == "m1.tiny"
    )
    body = {"server": {"name": "kept", "imageRef": image["id"], "flavorRef": flavor["id"]}}
    server = session.post(f"{compute(first)}/servers", json=body).json()["server"]

    def shown(cloud: Supervisor) -> Any:
        return session.get(f"{compute(cloud)}/servers/{server['id']}").json()["server"]

    wait_until(lambda: shown(first)["status"] == "ACTIVE", "the server to be active", at_most_s=60)
    saved = StockCloud(first).kilonova("backup", str(tmp_path / "saved"))
    assert saved.returncode == 0, saved.stderr
    assert shown(first)["status"] == "ACTIVE"
    first.stop()
    assert not [path for path in first.folder.rglob("*.db-wal") if path.stat().st_size]

    restored = StockCloud(second).kilonova("restore", str(tmp_path / "saved"))
    assert restored.returncode == 0, restored.stderr
    second.start().until_ready()
    assert shown(second)["status"] == "ACTIVE"  # authenticated by the token issued before the backup
    assert shown(second)["OS-EXT-SRV-ATTR:host"].startswith("node")
    assert session.get(f"{second.image}/images/{image['id']}/file").content == data
    assert session.delete(f"{compute(second)}/servers/{server['id']}").status_code == 204
