# SPDX-License-Identifier: Apache-2.0
from types import SimpleNamespace
from typing import Any

import pytest
from keystoneauth1.exceptions import ConnectFailure
from openstack.exceptions import NotFoundException

from kilonova.errors import Unavailable
from kilonova.identity.unified_limits import KeystoneLimits
from kilonova.model.quota import NO_LIMITS, NestedLimits


class Keystone:
    """The part of the SDK that is used. ``asked``: how often limits were fetched."""

    def __init__(self) -> None:
        self.identity = self
        self.asked = 0
        self.is_away = False
        self.found = [SimpleNamespace(id="nova-id")]
        self.wanted: dict[str, Any] = {}
        self.model = "flat"
        self.domains = {"default": ["rich", "poor"], "small": ["tiny"]}
        self.read: list[str] = []

    def services(self, **wanted: Any) -> list[Any]:
        self.wanted = wanted
        return self.found

    def get_endpoint(self, endpoint_id: str) -> Any:
        return SimpleNamespace(service_id=f"service of {endpoint_id}", region_id="south")

    def registered_limits(self, **service: Any) -> list[Any]:
        if self.is_away:
            raise ConnectFailure
        self.asked += 1
        self.service = service
        return [_registered("servers", 10), _registered("class:VCPU", 20), _registered("volumes", 5)]

    def get(self, path: str, params: Any = None) -> "Answer":
        self.read.append(path)
        if path == "/limits/model":
            return Answer({"model": {"name": self.model}})
        assert params["service_id"] == "nova-id"
        own = {"small": 7}.get(params["domain_id"])
        rows = [] if own is None else [{"resource_name": "class:VCPU", "resource_limit": own}]
        return Answer({"limits": rows})

    def get_project(self, project_id: str) -> Any:
        for domain, names in self.domains.items():
            if project_id in names:
                return SimpleNamespace(domain_id=domain)
        raise NotFoundException

    def projects(self, *, domain_id: str) -> list[Any]:
        return [SimpleNamespace(id=name) for name in self.domains[domain_id]]

    def limits(self, *, project_id: str, **_service: Any) -> list[Any]:
        own = {"rich": 1000}.get(project_id)
        return [] if own is None else [SimpleNamespace(resource_name="class:VCPU", resource_limit=own)]


class Answer:
    """An HTTP response."""

    status_code = 200

    def __init__(self, body: Any) -> None:
        self._body = body

    def json(self) -> Any:
        return self._body


def _registered(name: str, limit: int) -> Any:
    return SimpleNamespace(resource_name=name, default_limit=limit)


@pytest.fixture
def keystone() -> Keystone:
    return Keystone()


def test_a_project_has_its_own_limit_or_the_registered_one_and_what_is_not_registered_is_zero(
    keystone: Keystone,
) -> None:
    limits = KeystoneLimits(lambda: keystone)
    rich, poor = limits.of_project("rich"), limits.of_project("poor")
    assert rich is not None
    assert poor is not None
    assert (rich["cores"], poor["cores"]) == (1000, 20)
    assert (poor["instances"], poor["ram"]) == (10, 0)
    assert poor.keys() == NO_LIMITS.keys()
    assert limits.defaults() == poor


@pytest.mark.parametrize(("model", "is_nested"), [("flat", False), ("strict_two_level", True)])
def test_the_enforcement_model_tells_whether_a_domain_limits_its_projects(
    keystone: Keystone, model: str, is_nested: bool
) -> None:
    keystone.model = model
    now = [0.0]
    limits = KeystoneLimits(lambda: keystone, clock=lambda: now[0])
    rich = limits.of_project("rich")
    assert isinstance(rich, NestedLimits) == is_nested
    assert limits.of_project("rich") is rich
    assert not isinstance(limits.defaults(), NestedLimits)
    assert not isinstance(limits.of_project("unknown-project"), NestedLimits)
    if isinstance(rich, NestedLimits):
        assert (rich["cores"], rich.tree.limits["cores"]) == (1000, 20)
        assert (rich.tree.name, rich.tree.projects) == ("domain default", {"rich", "poor"})
        tiny = limits.of_project("tiny")
        assert isinstance(tiny, NestedLimits)
        assert (tiny["cores"], tiny.tree.limits["cores"], tiny.tree.limits["ram"]) == (20, 7, 0)
        keystone.domains["small"].append("new")
        new = limits.of_project("new")
        assert isinstance(new, NestedLimits)
        assert new.tree.projects == {"tiny", "new"}
    assert keystone.read.count("/limits/model") == 1
    keystone.model = "strict_two_level"
    now[0] = 60.0
    assert isinstance(limits.of_project("poor"), NestedLimits)


def test_limits_are_cached_for_some_seconds(keystone: Keystone) -> None:
    now = [0.0]
    limits = KeystoneLimits(lambda: keystone, clock=lambda: now[0])
    limits.of_project("p")
    now[0] = 4.9
    limits.of_project("p")
    assert keystone.asked == 1
    limits.of_project("q")
    now[0] = 5.0
    limits.of_project("p")
    assert keystone.asked == 3


def test_the_service_is_that_of_an_endpoint_or_one_by_its_name(keystone: Keystone) -> None:
    KeystoneLimits(lambda: keystone, endpoint_id="e").defaults()
    assert keystone.service == {"service_id": "service of e", "region_id": "south"}
    KeystoneLimits(lambda: keystone, service_name="nova", region="north").defaults()
    assert keystone.wanted == {"type": "compute", "name": "nova"}
    assert keystone.service == {"service_id": "nova-id", "region_id": "north"}


def test_several_services_and_an_absent_keystone_are_unavailable_until_that_changes(keystone: Keystone) -> None:
    limits = KeystoneLimits(lambda: keystone)
    keystone.found *= 2
    with pytest.raises(Unavailable, match=r"\[oslo_limit\] .*2"):
        limits.defaults()
    keystone.found.pop()
    keystone.is_away = True
    with pytest.raises(Unavailable, match="Keystone"):
        limits.defaults()
    keystone.is_away = False
    assert limits.defaults() is not None
