# SPDX-License-Identifier: Apache-2.0
from api.compute_cloud import Cloud
from support.api_client import send


def test_versions_are_shown_without_a_token(cloud: Cloud) -> None:
    anonymous = type(cloud.admin)(cloud.app, "")
    for path in ("", "/"):
        answer = anonymous.get(path)
        assert answer.status == 200
        version = answer.body["version"]
        assert (version["id"], version["status"]) == ("v2.1", "CURRENT")
        assert (version["min_version"], version["version"]) == ("2.1", "2.104")
        assert version["links"][0] == {"rel": "self", "href": "http://cloud/compute/v2.1/"}
    listed = send(cloud.app, "GET", "/compute/", b"", {}).body["versions"]
    for version in listed:
        (link,) = version["links"]
        document = send(cloud.app, "GET", link["href"].removeprefix("http://cloud"), b"", {}).body["version"]
        assert {name: document[name] for name in version} == {**version, "links": document["links"]}
        assert document["links"][0] == link
    assert [version["id"] for version in listed] == ["v2.0", "v2.1"]
