# SPDX-License-Identifier: Apache-2.0
"""Unified limits, which Keystone stores.

This module is slow to import, so it is imported only if [quota] driver selects it.
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from keystoneauth1.exceptions import ClientException
from openstack.exceptions import SDKException

from kilonova.errors import Unavailable
from kilonova.model.quota import NO_LIMITS, Limits

_KEPT_S = 5.0
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

    A project's own limits override the defaults. ``connect``: returns a connection of the SDK; called on first use.
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
            found = {each.resource_name: each.default_limit for each in identity.registered_limits(**service)}
            if project_id is not None:
                own = identity.limits(project_id=project_id, **service)
                found |= {each.resource_name: each.resource_limit for each in own}
        except (ClientException, SDKException) as error:
            raise Unavailable(f"Cannot read limits from Keystone: {error}") from error
        named = {ours: found.get(theirs, 0) for theirs, ours in RESOURCE_NAMES.items()}
        return {**NO_LIMITS, **named}

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
