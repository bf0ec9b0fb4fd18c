# SPDX-License-Identifier: Apache-2.0
import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qsl

import pytest
from keystoneauth1.session import Session

from kilonova.errors import Unavailable
from kilonova.images.glance_keeper import GlanceKeeper
from support.http_clients import serving

BACKUP = {"id": "b1", "image_type": "backup", "backup_type": "daily", "instance_uuid": "i", "owner": "p"}


class Glance:
    """Answers one request after the other. ``asked``: method, path and query of each."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, Any]] = []
        self.asked: list[tuple[str, str, dict[str, str]]] = []

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        query = dict(parse_qsl(environ["QUERY_STRING"]))
        self.asked.append((environ["REQUEST_METHOD"], environ["PATH_INFO"], query))
        status, body = self.answers.pop(0)
        start_response(f"{status} Whatever", [])
        return [] if status == 204 else [json.dumps(body).encode()]


@pytest.fixture
def glance() -> Glance:
    return Glance()


@pytest.fixture
def keeper(glance: Glance) -> Iterator[GlanceKeeper]:
    with serving(glance) as server:
        yield GlanceKeeper(Session(), f"http://127.0.0.1:{server.port}")


@pytest.mark.parametrize("status", [204, 400, 403, 404, 410])
def test_an_image_that_is_gone_or_protected_is_removed_as_far_as_can_be(
    glance: Glance, keeper: GlanceKeeper, status: int
) -> None:
    glance.answers = [(status, {})]
    keeper.remove("i")
    assert glance.asked == [("DELETE", "/v2/images/i", {})]


def test_another_answer_is_tried_again_later(glance: Glance, keeper: GlanceKeeper) -> None:
    glance.answers = [(409, {}), (418, {})]
    with pytest.raises(Unavailable, match="409"):
        keeper.remove("i")
    with pytest.raises(Unavailable, match="418"):
        keeper.find("i")


def test_only_backups_of_the_same_server_type_and_owner_are_returned_whatever_the_service_filters(
    glance: Glance, keeper: GlanceKeeper
) -> None:
    others = [{**BACKUP, "id": "x", name: "other"} for name in ("image_type", "backup_type", "instance_uuid", "owner")]
    glance.answers = [(200, BACKUP), (200, {"images": [{**BACKUP, "id": "b2"}, *others, BACKUP]})]
    assert keeper.backups_like("b1") == ("b2", "b1")
    assert glance.asked[1][2]["visibility"] == "all"


@pytest.mark.parametrize("answer", [(404, {}), (200, {**BACKUP, "backup_type": None})])
def test_an_image_that_is_no_backup_has_no_others(
    glance: Glance, keeper: GlanceKeeper, answer: tuple[int, Any]
) -> None:
    glance.answers = [answer]
    assert keeper.backups_like("b1") == ()
    assert len(glance.asked) == 1
