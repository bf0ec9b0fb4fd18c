# SPDX-License-Identifier: Apache-2.0
"""Ports of servers: created or supplied by the user, bound to a host, released or deleted.

All requests are those of Kilonova's own service user. Every function may be repeated after a crash or a lost response.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from kilonova.errors import Conflict, InvalidRequest, KilonovaError, NotFound, OverQuota
from kilonova.model.network_info import NetworkInfo, Vif, find_vif
from kilonova.model.network_request import NetworkRequest, RequestedNetwork
from kilonova.model.port_profiles import NO_PROFILES, PortProfiles
from kilonova.network import port_changes
from kilonova.network.client import NetworkClient, Resource
from kilonova.network.extensions import DNS, has_extension
from kilonova.network.info import AttachedPort, by_id, describe
from kilonova.network.port_owner import PortOwner, mark_of, ports_of
from kilonova.network.resource_requests import resources_of
from kilonova.records import dataclass


def create_ports(
    client: NetworkClient,
    owner: PortOwner,
    request: NetworkRequest,
    host: str,
    *,
    repeated: bool,
    profiles: PortProfiles = NO_PROFILES,
) -> NetworkInfo:
    """Create the ports of a new server, or use the user's; bind them to a host.

    Returns the interfaces in the requested order. ``repeated``: an earlier attempt may have created ports: these are
    adopted, and superfluous ones are deleted. ``profiles``: what the host gives to existing ports.
    If an error is raised, ports may remain; ``delete_ports`` removes them.
    Raises: NotFound, Conflict, InvalidRequest, OverQuota, PortBindingFailed, Unavailable.
    """
    present = list(ports_of(client, owner)) if repeated else []
    attempt = _Attempt.at(client, owner, host, request.networks, request.security_groups, present, profiles)
    attached = [attempt.attach(item) for item in request.networks]
    for port in attempt.present:
        if port["id"] not in attempt.given:
            port_changes.delete(client, port["id"])
    return describe(client, attached, floating=bool(attempt.given))


def attach_port(
    client: NetworkClient,
    owner: PortOwner,
    info: NetworkInfo,
    item: RequestedNetwork,
    host: str,
    *,
    security_groups: Sequence[str] = (),
    repeated: bool,
    profiles: PortProfiles = NO_PROFILES,
) -> Vif:
    """Create one port for an existing server, or use a port of the user; bind it to the server's host.

    ``info``: interfaces of the server so far. ``repeated``: an earlier attempt may have created the port.
    ``profiles``: as for ``create_ports``.
    Raises: as ``create_ports``.
    """
    known = {vif.port_id for vif in info}
    present = [port for port in ports_of(client, owner) if port["id"] not in known] if repeated else []
    attempt = _Attempt.at(client, owner, host, (item,), security_groups, present, profiles)
    return describe(client, [attempt.attach(item)], floating=bool(attempt.given))[0]


def delete_ports(client: NetworkClient, owner: PortOwner, kept: Collection[str]) -> None:
    """Release the user's ports of a server, and delete all its others.

    ``kept``: ids of the user's ports. Ports that are gone, or belong to another server by now, are left alone.
    Raises: the first error, after all ports have been tried.
    """
    errors: list[KilonovaError] = []
    for port in ports_of(client, owner):
        try:
            _remove(client, port, created=port["id"] not in kept)
        except KilonovaError as error:
            errors.append(error)
    if errors:
        raise errors[0]


def detach_port(client: NetworkClient, owner: PortOwner, vif: Vif) -> Mapping[str, Mapping[str, int]]:
    """Delete a port that was created for the server, or release a port of the user.

    Return what the port has used on the host: resource provider → class → amount.
    """
    used: Mapping[str, Mapping[str, int]] = vif.resources
    for port in ports_of(client, owner):
        if port["id"] == vif.port_id:
            used = resources_of(port) or used
            _remove(client, port, created=vif.created)
    return used


def undo_attach(client: NetworkClient, owner: PortOwner, info: NetworkInfo, item: RequestedNetwork) -> None:
    """Delete or release the port of a failed ``attach_port``. ``info``: the server's other interfaces."""
    known = {vif.port_id for vif in info}
    for port in ports_of(client, owner):
        is_made = item.port_id is None and port["network_id"] == item.network_id and port["id"] not in known
        if is_made or port["id"] == item.port_id:
            _remove(client, port, created=is_made)


def unbind(client: NetworkClient, owner: PortOwner, info: NetworkInfo) -> NetworkInfo:
    """Disconnect the ports of a server from its host, and return the interfaces. The server keeps the ports."""
    ports = [port_changes.unbound(client, port) for port in _present(client, owner, info)]
    return _described_as(client, info, ports)


def rebind(
    client: NetworkClient,
    owner: PortOwner,
    info: NetworkInfo,
    host: str,
    *,
    profiles: PortProfiles | None = None,
    before: PortProfiles = NO_PROFILES,
) -> NetworkInfo:
    """Bind the ports of a server to another host, or again to their present host; return its interfaces.

    Ports that no longer exist are left out. ``profiles``: what the host gives to the ports; None: as before, since the
    host stays. ``before``: what the former host has given to them. Raises: PortBindingFailed, Conflict, Unavailable.
    """
    ports = [
        port_changes.bound(client, owner, port, host, None if profiles is None else profiles.get(port["id"], {}))
        for port in _present(client, owner, info)
    ]
    if profiles is not None:
        info = tuple(replace(vif, profile_before=before.get(vif.port_id, {})) for vif in info)
    return _described_as(client, info, ports)


def given_by_host(info: NetworkInfo) -> dict[str, Mapping[str, object]]:
    """Return what the present host gives to the ports of a server, as last stored."""
    found = {vif.port_id: port_changes.of_host(vif.profile) for vif in info}
    return {port_id: profile for port_id, profile in found.items() if profile}


def refresh(client: NetworkClient, owner: PortOwner, info: NetworkInfo) -> NetworkInfo:
    """Return the current state of a server's interfaces. Ports that are no longer the server's are left out.

    Other ports that have the server as their device are not its interfaces: they were never plugged.
    """
    return _described_as(client, info, _present(client, owner, info))


def refresh_all(client: NetworkClient, infos: Mapping[str, NetworkInfo]) -> Mapping[str, NetworkInfo]:
    """Return the current state of the interfaces of several servers, by server, as :func:`refresh` does for one."""
    found = by_id(client, "ports", {vif.port_id for info in infos.values() for vif in info})
    attached = [
        (uuid, _as_known(found[vif.port_id], vif))
        for uuid, info in infos.items()
        for vif in info
        if vif.port_id in found and found[vif.port_id]["device_id"] == uuid
    ]
    described = describe(client, [port for _, port in attached])
    servers: dict[str, list[Vif]] = {uuid: [] for uuid in infos}
    for (uuid, _), vif in zip(attached, described, strict=True):
        servers[uuid].append(vif)
    return {uuid: tuple(vifs) for uuid, vifs in servers.items()}


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One attempt to create the ports of a server, or to bind the user's.

    ``given``: id → port of the user. ``networks``: id → network of new ports. ``present``: ports of an earlier attempt
    that this attempt has not adopted yet. ``profiles``: what the host gives to the ports of the user.
    """

    client: NetworkClient
    owner: PortOwner
    host: str
    security_groups: Sequence[str]
    given: Mapping[str, Resource]
    networks: Mapping[str, Resource]
    present: list[Resource]
    profiles: PortProfiles

    @classmethod
    def at(
        cls,
        client: NetworkClient,
        owner: PortOwner,
        host: str,
        items: Sequence[RequestedNetwork],
        security_groups: Sequence[str],
        present: list[Resource],
        profiles: PortProfiles,
    ) -> Self:
        """Read the requested ports and networks, and return the attempt that uses them."""
        given = by_id(client, "ports", {item.port_id for item in items if item.port_id is not None})
        networks = by_id(client, "networks", {item.network_id for item in items if item.port_id is None})
        return cls(client, owner, host, security_groups, given, networks, present, profiles)

    def attach(self, item: RequestedNetwork) -> AttachedPort:
        """Return the bound port for a requested interface."""
        if item.port_id is not None:
            return AttachedPort(self._take(item.port_id), created=False, tag=item.tag)
        port = self._adopt(item) or self._create(item)
        if port.get("resource_request"):
            raise InvalidRequest(
                f"Using networks with QoS policy is not supported for instance {self.owner.instance_uuid}. "
                f"(Network ID is {item.network_id})"
            )
        return AttachedPort(port, created=True, tag=item.tag)

    def _adopt(self, item: RequestedNetwork) -> Resource | None:
        """Return the port that an earlier attempt has created for a requested interface, bound to the host, or None."""
        for port in self.present:
            addresses = {fixed["ip_address"] for fixed in port["fixed_ips"]}
            if port["network_id"] == item.network_id and (item.address is None or item.address in addresses):
                self.present.remove(port)
                return port_changes.bound(self.client, self.owner, port, self.host)
        return None

    def _create(self, item: RequestedNetwork) -> Resource:
        network = self.networks.get(item.network_id)
        if network is None:
            raise NotFound(f"Network {item.network_id} could not be found.")
        values: dict[str, Any] = {
            "network_id": item.network_id,
            "project_id": self.owner.project_id,
            "device_id": self.owner.instance_uuid,
            "device_owner": self.owner.device_owner,
            "description": mark_of(self.owner.instance_uuid),
            port_changes.HOST: self.host,
            "admin_state_up": True,
        }
        if self.security_groups:
            values["security_groups"] = list(self.security_groups)
        if item.address is not None:
            values["fixed_ips"] = [{"ip_address": item.address}]
        if self.owner.hostname and not network.get("dns_domain") and has_extension(self.client, DNS):
            values["dns_name"] = self.owner.hostname
        try:
            port = self.client.create("ports", values)
        except KilonovaError as error:
            raise _refusal(error, item) from error
        return port_changes.successful(port)

    def _take(self, port_id: str) -> Resource:
        """Bind a port of the user for the server. If several servers request the port at once, only one gets it."""
        port, owner = self.given.get(port_id), self.owner
        if port is None or port["project_id"] != owner.project_id:
            raise _missing(port_id)
        if port["device_id"] not in {"", owner.instance_uuid}:
            raise port_changes.PortInUse(port_id)
        named = port.get("dns_name")
        if named and owner.hostname and named != owner.hostname:
            raise InvalidRequest(
                f"Port {port_id} not usable for instance {owner.instance_uuid}. Value {named} assigned to dns_name "
                f"attribute does not match instance's hostname {owner.hostname}"
            )
        taken = port_changes.bound(self.client, owner, port, self.host, self.profiles.get(port_id, {}))
        if taken is None:
            raise _missing(port_id)
        return taken


def _missing(port_id: str) -> NotFound:
    return NotFound(f"Port id {port_id} could not be found.")


def _refusal(error: KilonovaError, item: RequestedNetwork) -> KilonovaError:
    """Return the error for the user when a port cannot be created."""
    match error.fields.get("type"):
        case "IpAddressInUse" | "IpAddressAlreadyAllocated":
            return Conflict(f"Fixed IP {item.address} is already in use.")
        case "IpAddressGenerationFailure":
            return Conflict(f"No fixed IP addresses available for network: {item.network_id}")
        case "InvalidIpForNetwork" | "InvalidIpForSubnet":
            return InvalidRequest(f"Fixed IP {item.address} is not a valid ip address for network {item.network_id}.")
        case "OverQuota":
            return OverQuota("Maximum number of ports exceeded")
    return error


def _remove(client: NetworkClient, port: Resource, *, created: bool) -> None:
    if created:
        port_changes.delete(client, port["id"])
    else:
        port_changes.release(client, port)


def _present(client: NetworkClient, owner: PortOwner, info: NetworkInfo) -> list[Resource]:
    """Return those ports of ``info`` that still belong to the server, in the order of the interfaces."""
    found = {port["id"]: port for port in ports_of(client, owner)} if info else {}
    return [found[vif.port_id] for vif in info if vif.port_id in found]


def _described_as(client: NetworkClient, info: NetworkInfo, ports: Sequence[Resource | None]) -> NetworkInfo:
    """Describe the ports that exist. Facts that the network service does not know are from ``info``."""
    attached = [_as_known(port, find_vif(info, port["id"])) for port in ports if port is not None]
    return describe(client, attached)


def _as_known(port: Resource, vif: Vif | None) -> AttachedPort:
    """Return a port with the facts about its interface that the network service does not know."""
    if vif is None:
        return AttachedPort(port, created=False)
    return AttachedPort(port, vif.created, vif.tag, vif.profile_before)
