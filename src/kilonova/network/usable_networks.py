# SPDX-License-Identifier: Apache-2.0
"""Networks that servers of a project can use, as one of its users sees them."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from kilonova.errors import Conflict, Forbidden, InvalidRequest, NotFound
from kilonova.network.client import NetworkClient, Resource
from kilonova.records import dataclass

#: Attributes of networks that a check needs.
_FIELDS = ("id", "name", "subnets", "shared", "router:external", "port_security_enabled")


@dataclass(frozen=True, slots=True)
class UsableNetworks:
    """The view of one user. ``external_allowed``: whether the user may attach servers to external networks."""

    client: NetworkClient
    token: str | None
    project_id: str
    external_allowed: bool

    def list(self, kind: str, **filters: object) -> Sequence[Resource]:
        """Return the matching resources that the user can see."""
        return self.client.list(kind, token=self.token, **filters)

    def by_id(self, ids: Collection[str]) -> Mapping[str, Resource]:
        """Return id → network. Networks that the user cannot see are left out."""
        return {each["id"]: each for each in self.list("networks", id=sorted(ids), fields=_FIELDS)} if ids else {}

    def only_one(self, **filters: object) -> Resource | None:
        """Return the only network that is the project's own or shared, or None if there is none.

        ``filters``: conditions on the project's own networks. Raises: Conflict if there are several, Forbidden.
        """
        own = self.list("networks", project_id=self.project_id, shared=False, fields=_FIELDS, **filters)
        shared = self.list("networks", shared=True, fields=_FIELDS)
        found = {each["id"]: each for each in (*own, *shared)}
        if len(found) > 1:
            raise Conflict("Multiple possible networks found, use a Network ID to be more specific.")
        self.refuse_external(found.values())
        return next(iter(found.values()), None)

    def automatic(self) -> str:
        """Return the id of the only network, or else of a network that the network service creates for the project.

        Raises: InvalidRequest if the service cannot create one; Conflict, Forbidden, Unavailable.
        """
        only = self.only_one(admin_state_up=True)
        if only is not None:
            return str(only["id"])
        path = f"/auto-allocated-topology/{self.project_id}"
        try:
            self.client.call("GET", f"{path}?fields=dry-run", token=self.token)
            made = self.client.call("GET", path, token=self.token)
        except (Conflict, NotFound, InvalidRequest) as error:
            raise InvalidRequest(f"Unable to automatically allocate a network for project {self.project_id}") from error
        return str(made["auto_allocated_topology"]["id"])

    def refuse_external(self, networks: Iterable[Resource]) -> None:
        """Raise Forbidden if the user may not attach servers to one of the networks."""
        for each in () if self.external_allowed else networks:
            if each.get("router:external") and not each.get("shared"):
                raise Forbidden(f"It is not allowed to create an interface on external network {each['id']}")
