# SPDX-License-Identifier: Apache-2.0
"""Unified limits, which Keystone stores.

This module is slow to import, so it is imported only if [quota] driver selects it.
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from keystoneauth1.exceptions import ClientException
from openstack.exceptions import NotFoundException, SDKException, raise_from_response

from kilonova.errors import Unavailable
from kilonova.model.quota import NO_LIMITS, Limits, NestedLimits, QuotaTree

_KEPT_S = 5.0
#: The enforcement model changes with a restart of Keystone only.
_MODEL_KEPT_S = 60.0
#: Enforcement model in which a domain is the parent of its projects.
_STRICT_TWO_LEVEL = "strict_two_level"
_KEPT_PROJECTS = 4096
#: Name of a limit in Keystone → name in Nova's quotas.
RESOURCE_NAMES: Mapping[str, str] = {
    "servers": "instances",
    "class:VCPU": "cores",
    "class:MEMORY_MB": "ram",
    "server_metadata_items": "metadata_items",
    "server_injected_files": "injected_files",
    "server_injected_file_content_bytes": "injected_file_content_bytes",
    "server_injected_file_path_bytes": "injected_file_path_bytes",
    "server_key_pairs": "key_pairs",
    "server_groups": "server_groups",
    "server_group_members": "server_group_members",
}


class KeystoneLimits:
    """Unified limits. Registered limits are the defaults of all projects; an unregistered resource has the limit 0.

    A project's own limits override the defaults. If Keystone has the enforcement model ``strict_two_level``, the limits
    of a domain also apply to the usage of all its projects together; a domain without a limit has the default.
    ``connect``: returns a connection of the SDK; called on first use.
    ``service_type``, ``service_name``, ``region``: select the service in Keystone's catalogue; None matches any.
    ``endpoint_id``: selects the service by its endpoint, in place of these three.
    """

    is_read_only = True

    def __init__(
        self,
        connect: Callable[[], Any],
        *,
        endpoint_id: str | None = None,
        service_type: str | None = "compute",
        service_name: str | None = None,
        region: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connect = connect
        self._endpoint_id = endpoint_id
        self._service_type = service_type
        self._service_name = service_name
        self._region = region
        self._clock = clock
        self._lock = threading.Lock()
        self._identity: Any = None
        self._service: dict[str, str | None] = {}
        self._kept: dict[str | None, tuple[float, Limits]] = {}
        self._kept_trees: dict[str, tuple[float, QuotaTree]] = {}
        self._kept_model: tuple[float, str] | None = None

    def of_project(self, project_id: str) -> Limits | None:
        return self._limits(project_id)

    def defaults(self) -> Limits | None:
        return self._limits(None)

    def _limits(self, project_id: str | None) -> Limits:
        kept = self._kept.get(project_id)
        if kept is not None and self._clock() - kept[0] < _KEPT_S:
            return kept[1]
        began = self._clock()
        limits = self._fetch(project_id)
        with self._lock:
            if len(self._kept) >= _KEPT_PROJECTS:
                self._kept.clear()
            self._kept[project_id] = (began, limits)
        return limits

    def _fetch(self, project_id: str | None) -> Limits:
        try:
            identity, service = self._open()
            registered = {each.resource_name: each.default_limit for each in identity.registered_limits(**service)}
            if project_id is None:
                return _named(registered)
            own = identity.limits(project_id=project_id, **service)
            limits = _named({**registered, **{each.resource_name: each.resource_limit for each in own}})
            if self._model(identity) != _STRICT_TWO_LEVEL:
                return limits
            tree = self._tree(identity, project_id, registered, service)
        except (ClientException, SDKException) as error:
            raise Unavailable(f"Cannot read limits from Keystone: {error}") from error
        return limits if tree is None else NestedLimits(limits, tree)

    def _model(self, identity: Any) -> str:
        """Return the name of Keystone's enforcement model."""
        kept = self._kept_model
        if kept is None or self._clock() - kept[0] >= _MODEL_KEPT_S:
            answer = identity.get("/limits/model")
            raise_from_response(answer)
            kept = self._kept_model = self._clock(), str(answer.json()["model"]["name"])
        return kept[1]

    def _tree(
        self, identity: Any, project_id: str, registered: Mapping[str, int], service: Mapping[str, str | None]
    ) -> QuotaTree | None:
        """Return the tree of a project's domain; None for a project that does not exist."""
        try:
            domain_id = identity.get_project(project_id).domain_id
        except NotFoundException:
            return None
        kept = self._kept_trees.get(domain_id)
        if kept is None or self._clock() - kept[0] >= _KEPT_S or project_id not in kept[1].projects:
            began = self._clock()
            projects = frozenset(each.id for each in identity.projects(domain_id=domain_id))
            answer = identity.get("/limits", params={"domain_id": domain_id, **service})
            raise_from_response(answer)
            own = {each["resource_name"]: each["resource_limit"] for each in answer.json()["limits"]}
            kept = began, QuotaTree(f"domain {domain_id}", projects | {project_id}, _named({**registered, **own}))
            with self._lock:
                self._kept_trees[domain_id] = kept
        return kept[1]

    def _open(self) -> tuple[Any, Mapping[str, str | None]]:
        """Return the identity API and the selected service, connecting on first use."""
        with self._lock:
            if self._identity is None:
                identity = self._connect().identity
                self._service = self._find_service(identity)
                self._identity = identity
            return self._identity, self._service

    def _find_service(self, identity: Any) -> dict[str, str | None]:
        if self._endpoint_id is not None:
            endpoint = identity.get_endpoint(self._endpoint_id)
            return {"service_id": endpoint.service_id, "region_id": endpoint.region_id}
        wanted = {"type": self._service_type, "name": self._service_name}
        services = list(identity.services(**{name: value for name, value in wanted.items() if value}))
        if len(services) != 1:
            raise Unavailable(
                f"[oslo_limit] must select exactly one service of Keystone's catalogue; {wanted} selects "
                f"{len(services)} services."
            )
        return {"service_id": services[0].id, **({"region_id": self._region} if self._region else {})}


def _named(found: Mapping[str, int]) -> Limits:
    """Return limits by Nova's names. ``found``: by Keystone's names; a resource without a limit has the limit 0."""
    return {**NO_LIMITS, **{ours: found.get(theirs, 0) for theirs, ours in RESOURCE_NAMES.items()}}
