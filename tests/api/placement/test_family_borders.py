# SPDX-License-Identifier: Apache-2.0
"""Rules of every resource: tokens, versions, methods, error bodies."""

import pytest

from api.placement.placement_service import Placement

ABSENT = "6f6d7c1e-0000-4000-8000-000000000000"


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
    "path", ["/nothing", "/resource_providers/", f"/resource_providers/{ABSENT}/pets", "/%E2%98%83"]
)
def test_what_is_not_there_is_404(placement: Placement, path: str) -> None:
    assert placement.admin.get(path).status == 404


def test_errors_have_a_code_from_1_23(placement: Placement) -> None:
    path = f"/resource_providers/{ABSENT}"
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


def test_errors_are_text_for_who_refuses_json(placement: Placement) -> None:
    path = f"/resource_providers/{ABSENT}"
    html = placement.admin.delete(path, Accept="text/html")
    assert html.headers["content-type"].startswith("text/html")
    assert ABSENT.encode() in html.raw
    text = placement.admin.delete(path, Accept="text/plain")
    assert text.headers["content-type"].startswith("text/plain")
    assert placement.admin.delete(path, Accept="*/*").error["status"] == 404
