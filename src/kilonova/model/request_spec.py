# SPDX-License-Identifier: Apache-2.0
"""What is asked of the scheduler, as one value that is stored with the instance and used again for every move."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kilonova.model.config_drive import PublicKey
from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.model.server_group import GroupView
from kilonova.model.server_migration import MoveKind

ISOLATE = "isolate"
#: The hint, and its values, by which rules recognise that only the present host is asked about a new image.
REBUILD_HINT = "_nova_check_type"
REBUILD = ("rebuild",)


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """A group with a suffix (``resources1:VGPU=1``): all it asks for comes from one provider with these traits."""

    suffix: str
    resources: Mapping[str, int]
    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ResourceQuery:
    """The part of a request that Placement answers.

    ``resources``: resource class → amount, from the host's provider, those below it and those that share with it.
    ``required`` / ``forbidden``: traits that one / none of the providers that give these resources may have.
    ``root_required`` / ``root_forbidden``: traits of the host's own provider.
    ``groups``: what has to come from one provider each; ``group_policy`` ``isolate``: from a different one each.
    ``member_of``: each set must share at least one aggregate uuid with the host; the sets are ANDed.
    ``forbidden_aggregates``: aggregate uuids the host must not be in.
    ``fallback``: where the resources, traits and groups above cannot be had, those of this query will do.
    """

    resources: Mapping[str, int] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()
    member_of: tuple[frozenset[str], ...] = ()
    forbidden_aggregates: frozenset[str] = frozenset()
    root_required: frozenset[str] = frozenset()
    root_forbidden: frozenset[str] = frozenset()
    groups: tuple[ResourceGroup, ...] = ()
    group_policy: str | None = None
    fallback: "ResourceQuery | None" = None

    @property
    def totals(self) -> Mapping[str, int]:
        """Return what all groups ask for together, by resource class."""
        if not self.groups:
            return self.resources
        total = dict(self.resources)
        for group in self.groups:
            for name, amount in group.resources.items():
                total[name] = total.get(name, 0) + amount
        return total

    @property
    def isolates(self) -> bool:
        """Tell whether several groups must come from different providers."""
        return self.group_policy == ISOLATE and len(self.groups) > 1


@dataclass(frozen=True, slots=True)
class RequestedNetwork:
    """A network that a server is to be plugged into, as far as it matters where the server runs.

    ``segments``: for each segment of a routed network the uuids of its Placement aggregates; for a port with addresses
    only the segment of the first address's subnet. Empty for a network that is not routed.
    ``vnic_type``: of the port; ``remote-managed`` ports need a host whose network card is managed from elsewhere.
    """

    network_id: str
    vnic_type: str = "normal"
    segments: tuple[frozenset[str], ...] = ()


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """One scheduling request: what, for whom, where not.

    ``hints``: hint name → its values, always a tuple; hints starting with ``_nova`` never come from users.
    ``unseen_instances``: those of other projects in the hints, which count as if they did not exist.
    ``force_host`` / ``force_node`` bypass all filters (``az:host:node``); ``requested_host`` / ``requested_node``
    (2.74) cut the list down before the filters, which then all run.
    ``remote_address``: where the API request came from. ``is_admin``: whether its caller was an administrator.
    ``networks``: what is known of the requested networks; empty as long as there is no network service.
    ``tried``: (service host, hypervisor) pairs on which a build of this request failed; never chosen again.
    ``source_cell``: the server's Nova cell, on a move that may leave it.
    ``move``: why a server that exists is placed anew; None for new servers.
    """

    flavor: Flavor
    image: Image | None = None
    project_id: str = ""
    user_id: str = ""
    request_id: str = ""
    instance_uuids: tuple[str, ...] = ()
    availability_zone: str | None = None
    hints: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unseen_instances: frozenset[str] = frozenset()
    force_host: str | None = None
    force_node: str | None = None
    requested_host: str | None = None
    requested_node: str | None = None
    ignore_hosts: frozenset[str] = frozenset()
    group: GroupView | None = None
    query: ResourceQuery = field(default_factory=ResourceQuery)
    volume_backed: bool = False
    remote_address: str | None = None
    is_admin: bool = False
    networks: tuple[RequestedNetwork, ...] = ()
    tried: tuple[tuple[str, str], ...] = ()
    source_cell: str | None = None
    move: MoveKind | None = None

    @property
    def num_instances(self) -> int:
        return max(1, len(self.instance_uuids))

    def hinted_instances(self, hint: str) -> tuple[str, ...]:
        """Return the instances that a hint names and that its giver may see."""
        return tuple(uuid for uuid in self.hints.get(hint, ()) if uuid not in self.unseen_instances)

    def moving(
        self,
        kind: MoveKind,
        instance_uuid: str,
        *,
        leaving: Collection[str] = (),
        flavor: Flavor | None = None,
        host: str | None = None,
        node: str | None = None,
    ) -> "RequestSpec":
        """Return what is asked for a move of one of the servers of this request: hints, group and zone as at first.

        A host that was forced then is not any more. ``leaving``: service hosts that do not come into question.
        ``flavor``: the new one of a resize. ``host``, ``node``: to which somebody wants it moved; the rules are asked
        about them. Source: spec SCHEDULER §1.
        """
        hints = self.hints
        if kind is MoveKind.REBUILD:
            hints = {**hints, REBUILD_HINT: REBUILD}
        return replace(
            self,
            flavor=flavor or self.flavor,
            instance_uuids=(instance_uuid,),
            hints=hints,
            force_host=None,
            force_node=None,
            requested_host=host,
            requested_node=node,
            ignore_hosts=frozenset(leaving),
            tried=(),
            move=kind,
        )

    def with_query(self, **changes: Any) -> "RequestSpec":
        """Return a copy whose resource query has the given fields changed."""
        return replace(self, query=replace(self.query, **changes))

    def requiring(self, *traits: str) -> "RequestSpec":
        """Return a copy that also requires ``traits`` of the host's own provider."""
        return self.with_query(root_required=self.query.root_required.union(traits))


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """What is kept of one request for all of its servers, under ``uuid``. ``user_data``: base64, as it was sent.

    ``key``: the key pair that was named, as it was then; its owner may have deleted it since.
    ``trusted_certs``: the ids of the certificates that an image's signature may be made with.
    """

    uuid: str
    spec: RequestSpec
    group_uuid: str | None = None
    user_data: str | None = field(default=None, repr=False)
    key: PublicKey | None = None
    trusted_certs: tuple[str, ...] = ()
