# SPDX-License-Identifier: Apache-2.0
"""Media types, bodies and dates of requests and replies."""

import re

import pytest

from api.placement.placement_service import Placement


def test_bodies_must_be_declared_as_json(placement: Placement) -> None:
    body = b'{"name": "h1"}'
    assert placement.admin.post("/resource_providers", body, Content_Type="text/plain").status == 415
    assert placement.admin.post("/resource_providers", body, Content_Type="").status == 400
    assert placement.admin.post("/resource_providers", Content_Type="").status == 415
    typed = placement.admin.post("/resource_providers", body, Content_Type="application/json; charset=utf-8")
    assert typed.status == 200


def test_a_length_that_is_no_number_is_400(placement: Placement) -> None:
    assert placement.admin.post("/resource_providers", b"{}", Content_Length="two").status == 400


@pytest.mark.parametrize("body", [b"", b"{", b"[1,", b"\xff"])
def test_a_body_that_is_no_json_is_400(placement: Placement, body: bytes) -> None:
    answer = placement.admin.post("/resource_providers", body, Content_Type="application/json")
    assert answer.status == 400
    assert "Malformed JSON" in answer.detail


def test_a_deeply_nested_body_is_400(placement: Placement) -> None:
    for depth in (900, 100_000):
        body = b'{"name":' + b"[" * depth + b"]" * depth + b"}"
        assert placement.admin.post("/resource_providers", body).status == 400


def test_lists_are_json_only(placement: Placement) -> None:
    client = placement.admin
    assert client.get("/resource_providers", Accept="text/html").status == 406
    assert client.get("/resource_providers", Accept="text/html, */*;q=0.1").status == 200
    assert client.get("/resource_providers", Accept="nonsense").status == 200


def test_answers_are_dated_from_1_15(placement: Placement) -> None:
    assert "last-modified" not in placement.admin.at("1.14").get("/resource_providers").headers
    answer = placement.admin.at("1.15").get("/resource_providers")
    assert answer.headers["cache-control"] == "no-cache"
    assert re.fullmatch(r"\w+, \d+ \w+ \d{4} [\d:]+ GMT", answer.headers["last-modified"])


def test_an_answer_without_body_has_no_type(placement: Placement) -> None:
    for answer in (placement.admin.put("/traits/CUSTOM_A"), placement.admin.put("/traits/CUSTOM_A")):
        assert answer.raw == b""
        assert "content-type" not in answer.headers
