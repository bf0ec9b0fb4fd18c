# SPDX-License-Identifier: Apache-2.0
"""Creation of the first networks of a cloud. If they are deleted, they are not created again.

::

    private   shared with all projects, IPv4 and IPv6, from subnet pools that are the default of all projects
       │ router
    public    external, 172.24.4.0/24, for floating addresses; the physical network ``public``

All belong to the project ``service``. If the network ``public`` belonged to a project with servers, a request that
names no network could mean ``private`` or ``public``.
"""

import secrets
from collections.abc import Callable, Mapping
from ipaddress import IPv6Network
from pathlib import Path
from typing import Any

import requests
from keystoneauth1.exceptions import ClientException

from kilonova.bundled_services.neutron_conf import EXTERNAL
from kilonova.bundled_services.private_file import write_private
from kilonova.bundled_services.settings import Account
from kilonova.cli.up.networks import PRIVATE, PUBLIC
from kilonova.cli.up.seeding import call, session_of
from kilonova.errors import Unavailable

_V4_POOL = {"prefixes": ["10.0.0.0/16"], "default_prefixlen": 24}
_SLAAC = {"ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}
_PUBLIC_SUBNET = {
    "cidr": "172.24.4.0/24",
    "gateway_ip": "172.24.4.1",
    "enable_dhcp": False,
    "allocation_pools": [{"start": "172.24.4.10", "end": "172.24.4.250"}],
}

Resource = Mapping[str, Any]


class FirstNetworks:
    """The first networks of a cloud. ``mark``: file that is written when they have been created."""

    def __init__(self, mark: Path, service: Account, auth_url: str, network_url: str) -> None:
        self._mark = mark
        self._url = f"{network_url}/v2.0"
        self._session = session_of(service, auth_url)

    def create(self, tick: Callable[[], None]) -> None:
        """Create the missing networks and the router. If the creation is interrupted, the next start completes it.

        ``tick``: called after each resource. Raises: Unavailable.
        """
        self._tick = tick
        try:
            self._create_all()
        except (ClientException, requests.RequestException) as error:
            raise Unavailable(f"creating the first networks failed: {error}") from error
        write_private(self._mark, "networks and router\n")

    def _create_all(self) -> None:
        pools = {
            4: self._ensure("subnetpools", "default-v4", is_default=True, shared=True, **_V4_POOL),
            6: self._ensure("subnetpools", "default-v6", is_default=True, shared=True, **_v6_pool()),
        }
        private = self._ensure("networks", PRIVATE, shared=True)
        subnets = [
            self._ensure(
                "subnets",
                f"{PRIVATE}-v{version}",
                network_id=private["id"],
                ip_version=version,
                subnetpool_id=pool["id"],
                **(_SLAAC if version == 6 else {}),
            )
            for version, pool in pools.items()
        ]
        public = self._ensure(
            "networks",
            PUBLIC,
            is_default=True,
            **{
                "router:external": True,
                "provider:network_type": "flat",
                "provider:physical_network": EXTERNAL,
            },
        )
        self._ensure("subnets", f"{PUBLIC}-v4", network_id=public["id"], ip_version=4, **_PUBLIC_SUBNET)
        router = self._ensure("routers", "router", external_gateway_info={"network_id": public["id"]})
        for subnet in subnets:
            self._connect(router, subnet)

    def _ensure(self, kind: str, name: str, **values: Any) -> Resource:
        """Return the resource of this name; create it if it is missing."""
        found: list[Resource] = self._call("GET", f"{kind}?name={name}").json()[kind]
        if not found:
            one = kind.removesuffix("s")
            found = [self._call("POST", kind, (201,), json={one: {"name": name, **values}}).json()[one]]
            self._tick()
        return found[0]

    def _connect(self, router: Resource, subnet: Resource) -> None:
        ports = self._call("GET", f"ports?device_id={router['id']}&fixed_ips=subnet_id%3D{subnet['id']}").json()[
            "ports"
        ]
        if not ports:
            path = f"routers/{router['id']}/add_router_interface"
            self._call("PUT", path, json={"subnet_id": subnet["id"]})
            self._tick()

    def _call(self, method: str, path: str, accept: tuple[int, ...] = (200,), **arguments: Any) -> requests.Response:
        return call(self._session, method, f"{self._url}/{path}", accept, **arguments)


def _v6_pool() -> Mapping[str, Any]:
    """Return a pool of unique local addresses with a random prefix, as RFC 4193 requires."""
    prefix = IPv6Network((bytes((0xFD, *secrets.token_bytes(5))) + bytes(10), 48))
    return {"prefixes": [str(prefix)], "default_prefixlen": 64}
