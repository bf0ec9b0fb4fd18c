# SPDX-License-Identifier: Apache-2.0
"""What is the same for every resource: discovery, tokens, versions, media types, methods, error bodies."""

import re

import pytest

from api.placement.placement_service import Placement

NOBODY = "6f6d7c1e-0000-4000-8000-000000000000"


def test_discovery_needs_no_token_and_names_the_range(placement: Placement) -> None:
    answer = placement.admin.as_user("").at(None).get("/")
    assert answer.status == 200
    (version,) = answer.body["versions"]
    assert version["id"] == "v1.0"
    assert (version["min_version"], version["max_version"]) == ("1.0", "1.39")
    assert version["links"] == [{"rel": "self", "href": ""}]
    assert placement.admin.as_user("").get("").status == 200


def test_everything_else_needs_one(placement: Placement) -> None:
    answer = placement.admin.as_user("").get("/resource_providers")
    assert answer.status == 401
    assert "www-authenticate" in answer.headers
    assert answer.error["title"] == "Unauthorized"


def test_a_plain_user_may_do_nothing(placement: Placement) -> None:
    answer = placement.admin.as_user("alice:wonder").get("/resource_providers")
    assert answer.status == 403
    assert answer.error["title"] == "Forbidden"


@pytest.mark.parametrize(
    ("asked", "used"), [(None, "placement 1.0"), ("latest", "placement 1.39"), ("1.7", "placement 1.7")]
)
def test_the_version_used_is_named(placement: Placement, asked: str | None, used: str) -> None:
    answer = placement.admin.at(asked).get("/resource_providers")
    assert answer.headers["openstack-api-version"] == used
    assert "openstack-api-version" in answer.headers["vary"]


@pytest.mark.parametrize(("asked", "status"), [("1.40", 406), ("0.9", 406), ("2.1", 406), ("1", 400), ("pony.1", 400)])
def test_other_versions_are_refused(placement: Placement, asked: str, status: int) -> None:
    answer = placement.admin.at(asked).get("/")
    assert answer.status == status
    assert asked in answer.detail
    assert ("max_version" in answer.error) == (status == 406)


@pytest.mark.parametrize(
    "path", ["/nothing", "/resource_providers/", f"/resource_providers/{NOBODY}/pets", "/%E2%98%83"]
)
def test_what_is_not_there_is_404(placement: Placement, path: str) -> None:
    assert placement.admin.get(path).status == 404


def test_errors_have_a_code_from_1_23(placement: Placement) -> None:
    path = f"/resource_providers/{NOBODY}"
    assert "code" not in placement.admin.at("1.22").get(path).error
    answer = placement.admin.at("1.23").get(path)
    assert answer.code == "undefined_code"
    assert answer.error["title"] == "Not Found"
    assert answer.error["request_id"] == answer.headers["x-openstack-request-id"]


def test_a_method_that_a_path_lacks_is_405_and_names_the_others(placement: Placement) -> None:
    answer = placement.admin.post("/traits", {})
    assert answer.status == 405
    assert answer.headers["allow"] == "GET"
    assert answer.detail == "The method POST is not allowed for this resource."
    assert placement.admin.send("PATCH", "/resource_classes").headers["allow"] == "GET, POST"


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


def test_errors_are_text_for_who_refuses_json(placement: Placement) -> None:
    path = f"/resource_providers/{NOBODY}"
    html = placement.admin.delete(path, Accept="text/html")
    assert html.headers["content-type"].startswith("text/html")
    assert NOBODY.encode() in html.raw
    text = placement.admin.delete(path, Accept="text/plain")
    assert text.headers["content-type"].startswith("text/plain")
    assert placement.admin.delete(path, Accept="*/*").error["status"] == 404


def test_answers_are_dated_from_1_15(placement: Placement) -> None:
    assert "last-modified" not in placement.admin.at("1.14").get("/resource_providers").headers
    answer = placement.admin.at("1.15").get("/resource_providers")
    assert answer.headers["cache-control"] == "no-cache"
    assert re.fullmatch(r"\w+, \d+ \w+ \d{4} [\d:]+ GMT", answer.headers["last-modified"])


def test_an_answer_without_body_has_no_type(placement: Placement) -> None:
    for answer in (placement.admin.put("/traits/CUSTOM_A"), placement.admin.put("/traits/CUSTOM_A")):
        assert answer.raw == b""
        assert "content-type" not in answer.headers
