# SPDX-License-Identifier: Apache-2.0
"""Changes of one port: bound to a host, disconnected from it, given back to the user, deleted.

A port is changed only at the revision that was read, so that two servers cannot use the same port of a user.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from kilonova.errors import ConcurrentUpdate, Conflict, NotFound, PortBindingFailed, Unavailable
from kilonova.model.network_info import VifType
from kilonova.network.client import NetworkClient, Resource
from kilonova.network.port_owner import PortOwner

HOST, PROFILE, VIF_TYPE = "binding:host_id", "binding:profile", "binding:vif_type"
#: Key of ``binding:profile`` with the destination of a live migration.
MIGRATING_TO = "migrating_to"
#: Keys of ``binding:profile`` that describe the host of a port, not the port itself.
_OF_HOST = frozenset(
    {
        "allocation",
        "arq_uuid",
        "card_serial_number",
        "device_mac_address",
        MIGRATING_TO,
        "pci_slot",
        "pci_vendor_info",
        "pf_mac_address",
        "physical_network",
        "vf_num",
    }
)
#: Maximum number of attempts to change a port that other requests change at the same time.
_ATTEMPTS = 5


class PortInUse(Conflict):
    """The port belongs to another server."""

    def __init__(self, port_id: str) -> None:
        super().__init__(f"Port {port_id} is still in use.")


def bound(
    client: NetworkClient, owner: PortOwner, port: Resource, host: str, given: Mapping[str, object] | None = None
) -> Resource | None:
    """Give a port to a server and bind it to a host; return the changed port, or None if it no longer exists.

    ``given``: what the host gives to the port, as keys of ``binding:profile``; None: as before, since the host stays.
    Raises: PortInUse, PortBindingFailed, Conflict, Unavailable.
    """
    profile = port[PROFILE] or {}
    kept = {key: value for key, value in profile.items() if key != MIGRATING_TO}
    wanted: dict[str, Any] = {
        "device_id": owner.instance_uuid,
        "device_owner": owner.device_owner,
        HOST: host,
        PROFILE: kept if given is None else {**without_host(profile), **given},
    }
    changes = {key: value for key, value in wanted.items() if port[key] != value}
    if not changes and port[VIF_TYPE] not in {VifType.UNBOUND, VifType.BINDING_FAILED}:
        return port
    changed = update(client, port, {**changes, HOST: host})  # Neutron repeats a failed binding if the host is set again
    return None if changed is None else successful(changed)


def successful(port: Resource) -> Resource:
    """Return ``port``. Raises: PortBindingFailed if Neutron could not bind the port to its host."""
    if port[VIF_TYPE] == VifType.BINDING_FAILED:
        raise PortBindingFailed(port["id"])
    return port


def unbound(client: NetworkClient, port: Resource) -> Resource | None:
    """Disconnect a port from its host; return the changed port, or None if it no longer exists."""
    changes = _profile_without_host(port)
    return update(client, port, {**changes, HOST: None}) if changes or port[HOST] else port


def release(client: NetworkClient, port: Resource) -> None:
    """Give a port back to the user. A port that is gone, or belongs to another server by now, is left alone."""
    values: dict[str, Any] = {"device_id": "", "device_owner": "", HOST: None, **_profile_without_host(port)}
    if port.get("dns_name"):
        values["dns_name"] = ""
    destination = (port[PROFILE] or {}).get(MIGRATING_TO)
    if destination:  # a delete has interrupted a live migration, which had bound the port to the destination too
        with suppress(NotFound):
            client.call("DELETE", f"/ports/{port['id']}/bindings/{destination}")
    with suppress(PortInUse):
        update(client, port, values)


def delete(client: NetworkClient, port_id: str) -> None:
    """Delete a port, if it exists."""
    with suppress(NotFound):
        client.delete("ports", port_id)


def without_host(profile: Mapping[str, object] | None) -> Mapping[str, object]:
    """Return the binding profile of a port without the keys that describe the port's host."""
    return {key: value for key, value in (profile or {}).items() if key not in _OF_HOST}


def of_host(profile: Mapping[str, object]) -> Mapping[str, object]:
    """Return the facts of its host in a port's profile, apart from the mark of a live migration."""
    return {key: value for key, value in profile.items() if key in _OF_HOST - {MIGRATING_TO}}


def update(client: NetworkClient, port: Resource, values: Resource) -> Resource | None:
    """Change a port; return the changed port, or None if it no longer exists.

    If the port has changed since it was read, it is read again, and changed unless it already has the values: an
    earlier delivery of the same request may have set them. Raises: PortInUse if the port now has another device.
    """
    current = port
    for _ in range(_ATTEMPTS):
        if current is not port and all((current[key] or None) == (value or None) for key, value in values.items()):
            return current
        if current["device_id"] != port["device_id"]:
            raise PortInUse(port["id"])
        try:
            return client.update("ports", port["id"], values, revision=current.get("revision_number"))
        except NotFound:
            return None
        except ConcurrentUpdate:
            found = client.list("ports", id=[port["id"]])
            if not found:
                return None
            current = found[0]
    raise Unavailable(f"Port {port['id']} is being changed by other requests.")


def _profile_without_host(port: Resource) -> Mapping[str, Any]:
    """Return the change that removes the keys of the host from a port's binding profile; empty if there are none."""
    kept = without_host(port[PROFILE])
    return {PROFILE: kept} if kept != (port[PROFILE] or {}) else {}
