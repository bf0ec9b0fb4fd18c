# SPDX-License-Identifier: Apache-2.0
import io
from typing import Any

import pytest

from kilonova.api.faults import HttpError
from kilonova.api.request_body import read_body
from kilonova.errors import InvalidRequest, Unavailable
from kilonova.wsgi_keys import BODY_REFUSED


class Slow(io.BytesIO):
    """A stream whose reads return at most three bytes."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(size or 0, 3))


def environ(body: bytes, **more: Any) -> dict[str, Any]:
    return {"wsgi.input": Slow(body), **more}


def test_a_body_that_arrives_in_pieces_is_read_to_its_length() -> None:
    assert read_body(environ(b"0123456789 and more", CONTENT_LENGTH="10"), 100) == b"0123456789"
    assert read_body(environ(b"short", CONTENT_LENGTH="10"), 100) == b"short", "the client has gone"


def test_without_a_length_only_a_chunked_body_is_read() -> None:
    assert read_body(environ(b"body"), 100) == b""
    assert read_body(environ(b"body", HTTP_TRANSFER_ENCODING="Chunked"), 4) == b"body"


@pytest.mark.parametrize(
    "more",
    [
        {"CONTENT_LENGTH": "5"},
        {"CONTENT_LENGTH": "9" * 5000},
        {"HTTP_TRANSFER_ENCODING": "chunked"},
        {BODY_REFUSED: 413},
    ],
)
def test_a_body_over_the_limit_is_too_large(more: dict[str, Any]) -> None:
    with pytest.raises(HttpError, match="larger than 4 bytes") as refused:
        read_body(environ(b"12345", **more), 4)
    assert refused.value.status == 413


@pytest.mark.parametrize("length", ["two", "-1", "1.5", "²"])
def test_a_length_must_be_a_number(length: str) -> None:
    with pytest.raises(InvalidRequest, match="content-length"):
        read_body(environ(b"", CONTENT_LENGTH=length), 4)


def test_a_body_that_the_server_skipped_must_be_sent_again() -> None:
    with pytest.raises(Unavailable):
        read_body(environ(b"", **{BODY_REFUSED: 401}), 4)
