# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kilonova.compute.files.image_transfers import download, upload
from kilonova.errors import ImageUnusable, KilonovaError, TransferBroken, TransferPostponed
from kilonova.model.image_data import ImageData
from support.http_clients import serving


class ControlProcess:
    def __init__(self) -> None:
        self.status = 200
        self.headers: list[tuple[str | None, str | None]] = []

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        self.headers.append((environ.get("HTTP_AUTHORIZATION"), environ.get("HTTP_RANGE")))
        start_response(f"{self.status} Whatever", [])
        return [b"data"]


@pytest.fixture
def control() -> ControlProcess:
    return ControlProcess()


@pytest.fixture
def image(control: ControlProcess) -> Iterator[ImageData]:
    with serving(control) as server:
        yield ImageData("i", url=f"http://127.0.0.1:{server.port}/file", ticket="t")


@pytest.mark.parametrize(("status", "offset"), [(200, 0), (206, 7)])
def test_data_begin_where_the_answer_says(control: ControlProcess, image: ImageData, status: int, offset: int) -> None:
    control.status = status
    with download(image, 7, verify=True) as (start, pieces):
        assert (start, b"".join(pieces)) == (offset, b"data")
    assert control.headers == [("Bearer t", "bytes=7-")]


@pytest.mark.parametrize(
    ("status", "error", "message"),
    [
        (503, TransferPostponed, "answered 503"),
        (500, TransferBroken, "answered 500"),
        (302, TransferBroken, "answered 302"),
        (401, ImageUnusable, "ticket for this image has expired"),
        (404, ImageUnusable, "no longer exists"),
        (403, ImageUnusable, "answered 403"),
    ],
)
def test_only_permanent_errors_end_the_retries(
    control: ControlProcess, image: ImageData, status: int, error: type[KilonovaError], message: str
) -> None:
    control.status = status
    with pytest.raises(error, match=message) as caught, download(image, 0, verify=True):
        pass
    assert type(caught.value) is error


def test_a_control_process_that_is_away_may_be_back_soon() -> None:
    with pytest.raises(TransferBroken, match="cannot be reached"):
        upload(ImageData("i", url="http://127.0.0.1:1/file"), b"", verify=True)
