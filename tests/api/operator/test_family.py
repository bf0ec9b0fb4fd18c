# SPDX-License-Identifier: Apache-2.0
"""What the operator API says to queries about what there is not: it names the parameter and never answers nothing."""

from collections.abc import Mapping
from urllib.parse import quote

import pytest

from kilonova.api.operator.family import RESOURCES
from kilonova.identifiers import new_uuid
from support.api_client import Client
from support.control import Control, NewControl

ROUTES = [(method, path) for each in RESOURCES for path, methods in each.ROUTES.items() for method in methods]
ANYTHING = {"uuid": new_uuid(), "host": "node1", "name": "req-1", "server_id": new_uuid()}
BODIES: Mapping[tuple[str, str], object] = {
    ("POST", "/v1/capacity"): {},
    ("POST", "/v1/drain"): {"hosts": ["node1"]},
    ("POST", "/v1/explain"): {"flavor": {"vcpus": 1, "ram": 1}},
    ("POST", "/v1/stray-ports/remove"): {"remove": {"port": new_uuid()}},
    ("POST", "/v1/strays/remove"): {"remove": {"host": "node1", "guest": new_uuid()}},
    ("PUT", "/v1/read-only"): {"read_only": {"enabled": False}},
    ("POST", "/v1/servers/{server_id}/leave-group"): {"leave_group": {"server_group": new_uuid()}},
    ("PUT", "/v1/servers/{server_id}/hints"): {"hints": {}},
}


@pytest.fixture(scope="module")
def operator(new_shared_control: NewControl) -> Client:
    control: Control = new_shared_control()
    return control.operator


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_a_parameter_that_no_route_has_is_named(operator: Client, method: str, path: str) -> None:
    url = f"{path.removeprefix('/v1').format(**ANYTHING)}?nonsense=1"
    answer = operator.send(method, url, BODIES.get((method, path)))
    assert answer.status == 400, answer.body
    assert "nonsense" in answer.fault[1]


@pytest.mark.parametrize(
    ("path", "parameter", "value"),
    [
        ("/hosts", "host", "nowhere"),
        ("/strays", "host", "nowhere"),
        ("/strays", "host", "node"),
        ("/workflows", "server", "4f0e6fb6-8f7c-4a59-9ad5-0a3c6f1f3f3c"),
        ("/workflows", "server", "-" * 36),
        ("/workflows", "server", "vm"),
        ("/servers/count", "host", "nowhere"),
        ("/servers/count", "flavor", "none"),
        ("/servers/count", "vm_state", "sleepy"),
        ("/servers/count", "limit", "1"),
        ("/servers/count", "changes-since", "9999-99-99"),
    ],
)
def test_a_filter_that_names_what_there_is_not_is_refused(
    operator: Client, path: str, parameter: str, value: str
) -> None:
    answer = operator.get(f"{path}?{parameter}={quote(value)}")
    assert answer.status == 400, answer.body
    assert parameter in answer.fault[1]


def test_a_count_of_one_project_needs_all_tenants(operator: Client) -> None:
    """Without it the count is of the caller's own project, whatever project is named."""
    answer = operator.get("/servers/count?project_id=other")
    assert answer.status == 400
    assert "project_id" in answer.fault[1]
    assert operator.get("/servers/count?project_id=other&all_tenants=1").body == {"count": 0}


def test_a_host_and_a_server_that_exist_may_have_nothing(operator: Client) -> None:
    assert operator.get("/strays?host=node1").body == {"strays": []}
    assert operator.get("/servers/count?host=node1&all_tenants=1").body == {"count": 0}
    assert operator.get("/servers/count?vm_state=error&all_tenants=1").body == {"count": 0}


@pytest.mark.parametrize("parameter", ["rule=NoSuchFilter", "marker=nowhere", "limit=-1", "passed=perhaps"])
def test_what_hosts_of_an_explanation_are_asked_for_is_checked(operator: Client, parameter: str) -> None:
    answer = operator.post(f"/explain?{parameter}", {"flavor": {"vcpus": 1, "ram": 1}})
    assert answer.status == 400, answer.body
    assert parameter.partition("=")[0] in answer.fault[1]


@pytest.mark.parametrize("parameter", ["rule=ComputeFilter", "marker=a", "limit=1", "passed=true", "host=node1"])
def test_hosts_of_a_decision_are_chosen_only_where_they_are_asked_for(operator: Client, parameter: str) -> None:
    answer = operator.get(f"/decisions/req-1?{parameter}")
    assert answer.status == 400, answer.body
    assert parameter.partition("=")[0] in answer.fault[1]


@pytest.mark.parametrize("name", ["services", "system_metadata", "security_groups", "info_cache", "pci_devices"])
def test_a_count_takes_no_filter_without_effect(operator: Client, name: str) -> None:
    answer = operator.get(f"/servers/count?{name}=x")
    assert answer.status == 400
    assert name in answer.fault[1]
