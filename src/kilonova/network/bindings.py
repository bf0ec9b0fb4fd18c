# SPDX-License-Identifier: Apache-2.0
"""Ports of a server during a live migration: bound to the source and to the destination at once.

::

    prepare ──▶ bindings to the destination, inactive
       │           │
       │           ├─ activate ──▶ the destination's are active ──▶ remove(source)
       └───────────┴─ failure ──▶ remove(destination)

Every function may be repeated after a crash or a lost response.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from kilonova.errors import Conflict, NotFound, PortBindingFailed, Unavailable
from kilonova.model.network_info import NetworkInfo, Vif, VifType
from kilonova.model.port_profiles import NO_PROFILES, PortProfiles
from kilonova.network import port_changes, ports
from kilonova.network.client import NetworkClient, Resource
from kilonova.network.port_owner import PortOwner, ports_of

#: Status of Neutron's response if no mechanism can bind the port to the host.
_NOT_BOUND = 500


def prepare(
    client: NetworkClient,
    owner: PortOwner,
    info: NetworkInfo,
    host: str,
    profiles: PortProfiles = NO_PROFILES,
) -> NetworkInfo:
    """Bind the ports of a server to a second host; return the interfaces as the guest needs them there.

    ``profiles``: what that host gives to the ports.
    A mark in the profile of each port tells Neutron's mechanisms that the port will move. Raises: PortBindingFailed,
    Conflict, Unavailable.
    """
    found = {port["id"]: port for port in ports_of(client, owner)} if info else {}
    bound = []
    for vif in info:
        port = found.get(vif.port_id)
        if port is None:
            continue
        bound.append(_at_destination(vif, _bind(client, port, host, profiles.get(vif.port_id, {}))))
        profile = port[port_changes.PROFILE] or {}
        if profile.get(port_changes.MIGRATING_TO) != host and port[port_changes.HOST] != host:
            marked = {**profile, port_changes.MIGRATING_TO: host}
            port_changes.update(client, port, {port_changes.PROFILE: marked})
    return tuple(bound)


def activate(client: NetworkClient, owner: PortOwner, info: NetworkInfo, host: str) -> NetworkInfo:
    """Move the traffic of the ports to a host that ``prepare`` has bound them to; return the interfaces.

    Raises: NotFound if a port has no binding to the host, Unavailable.
    """
    for vif in info:
        try:
            client.call("PUT", f"/ports/{vif.port_id}/bindings/{host}/activate")
        except NotFound as error:
            if error.fields.get("type") != "PortNotFound":
                raise
        except Conflict:
            if not _is_active(client, vif.port_id, host):
                raise
    return ports.refresh(client, owner, info)


def remove(client: NetworkClient, owner: PortOwner, info: NetworkInfo, host: str) -> None:
    """Remove the inactive bindings to a host, and the mark that the ports will move. No error if they are absent."""
    for port in ports_of(client, owner) if info else ():
        if port[port_changes.HOST] == host:
            continue  # the binding to this host is the active one
        with suppress(NotFound):
            client.call("DELETE", f"/ports/{port['id']}/bindings/{host}")
        profile = port[port_changes.PROFILE] or {}
        if port_changes.MIGRATING_TO in profile:
            kept = {key: value for key, value in profile.items() if key != port_changes.MIGRATING_TO}
            port_changes.update(client, port, {port_changes.PROFILE: kept})


def _bind(client: NetworkClient, port: Resource, host: str, given: Mapping[str, object]) -> Mapping[str, Any]:
    """Return the binding of a port to a host; create it if it does not exist. ``given``: keys of its profile."""
    profile = {**port_changes.without_host(port[port_changes.PROFILE]), **given}
    binding = {"host": host, "vnic_type": port["binding:vnic_type"], "profile": profile}
    try:
        made = client.call("POST", f"/ports/{port['id']}/bindings", {"binding": binding})["binding"]
    except Conflict:
        made = _binding(client, port["id"], host)
        if made is None:
            raise
        if (made.get("profile") or {}) != profile:
            path = f"/ports/{port['id']}/bindings/{host}"
            made = client.call("PUT", path, {"binding": {"profile": profile}})["binding"]
    except Unavailable as error:
        if error.fields.get("status") == _NOT_BOUND:
            raise PortBindingFailed(port["id"]) from error
        raise
    if made["vif_type"] == VifType.BINDING_FAILED:
        raise PortBindingFailed(port["id"])
    found: Mapping[str, Any] = made
    return found


def _binding(client: NetworkClient, port_id: str, host: str) -> Mapping[str, Any] | None:
    bindings = client.call("GET", f"/ports/{port_id}/bindings")["bindings"]
    return next((each for each in bindings if each["host"] == host), None)


def _is_active(client: NetworkClient, port_id: str, host: str) -> bool:
    binding = _binding(client, port_id, host)
    return binding is not None and binding["status"] == "ACTIVE"


def _at_destination(vif: Vif, binding: Mapping[str, Any]) -> Vif:
    details = binding.get("vif_details") or {}
    network = replace(vif.network, bridge=details.get("bridge_name"))
    return replace(
        vif, network=network, vif_type=binding["vif_type"], details=details, profile=binding.get("profile") or {}
    )
