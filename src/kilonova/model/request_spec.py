# SPDX-License-Identifier: Apache-2.0
"""Request specs: scheduler requests that are stored with the instance and reused for every move."""

from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Any

from kilonova.model.config_drive import PublicKey
from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.model.local_disk import NO_LOCAL_DISKS, LocalDisks
from kilonova.model.server_group import GroupView
from kilonova.model.server_migration import MoveKind
from kilonova.records import dataclass, replace

ISOLATE = "isolate"
#: Name and values of the scheduler hint that marks a rebuild with a new image. The scheduler then checks only the
#: server's current host.
REBUILD_HINT = "_nova_check_type"
REBUILD = ("rebuild",)


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """A suffixed request group (``resources1:VGPU=1``). One provider must supply its resources and have its traits.

    ``port_id``: the port that requests the group; "" for a group of the flavor.
    """

    suffix: str
    resources: Mapping[str, int]
    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()
    port_id: str = ""


@dataclass(frozen=True, slots=True)
class ResourceQuery:
    """The Placement query of a request.

    ``resources``: resource class → amount, supplied by the host's provider, its descendants and sharing providers.
    ``required``: each of these traits must belong to at least one provider of ``resources``. ``forbidden``: traits that
    no provider of ``resources`` may have.
    ``root_required``, ``root_forbidden``: required and forbidden traits of the host's own provider.
    ``groups``: request groups, each supplied by one provider; with the ``group_policy`` ``isolate``, by different
    providers. ``same_subtrees``: sets of group suffixes; one provider of each set must be the ancestor of the others.
    ``member_of``: sets of aggregate uuids; the host must be in at least one aggregate of each set.
    ``forbidden_aggregates``: uuids of aggregates that the host must not be in.
    ``fallback``: query whose resources, traits and groups are used if those of this query cannot be supplied.
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
    same_subtrees: tuple[frozenset[str], ...] = ()
    fallback: "ResourceQuery | None" = None

    @property
    def totals(self) -> Mapping[str, int]:
        """The total amount per resource class of ``resources`` and all groups."""
        if not self.groups:
            return self.resources
        total = dict(self.resources)
        for group in self.groups:
            for name, amount in group.resources.items():
                total[name] = total.get(name, 0) + amount
        return total

    @property
    def isolates(self) -> bool:
        """True if the query has several groups that different providers must supply."""
        return self.group_policy == ISOLATE and len(self.groups) > 1


@dataclass(frozen=True, slots=True)
class RequestedNetwork:
    """A requested network, with the attributes that affect scheduling.

    ``segments``: for each segment of a routed network, the uuids of its Placement aggregates; for a port with fixed
    IPs, only the segment of the first address's subnet. Empty for a network that is not routed.
    ``vnic_type``: VNIC type of the port; a ``remote-managed`` port needs a host with a remote-managed SmartNIC.
    ``physical_network``: physical network of the network; ``tunneled``: the network is an overlay, such as Geneve.
    ``trusted``: whether the port needs a trusted virtual function; None: it does not matter. ``numa_policy``: NUMA
    affinity that the port demands of its PCI device; None: that of the flavor.
    ``port_id``: the port, if it exists already. ``groups``: the resources that the port requests; if it uses the format
    without groups, the suffix of its only group is the id of the port. ``same_subtree``: suffixes of groups whose
    providers must be in one subtree.
    """

    network_id: str
    vnic_type: str = "normal"
    segments: tuple[frozenset[str], ...] = ()
    port_id: str = ""
    groups: tuple[ResourceGroup, ...] = ()
    same_subtree: frozenset[str] = frozenset()
    physical_network: str | None = None
    tunneled: bool = False
    trusted: bool | None = None
    numa_policy: str | None = None


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """A scheduling request for one or more servers.

    ``hints``: hint name → tuple of values; hints that start with ``_nova`` never come from users.
    ``unseen_instances``: instances in the hints that the requester may not see; they are treated as absent.
    ``force_host``, ``force_node``: forced host (``az:host:node``), for which no filter runs. ``requested_host``,
    ``requested_node`` (2.74): requested host, for which all filters run.
    ``remote_address``: client address of the API request. ``is_admin``: whether the caller was an administrator.
    ``networks``: the requested networks; empty in a cloud without a network service.
    ``tried``: (service host, node) pairs on which a build of this request has failed; they are not chosen again.
    ``source_cell``: the server's Nova cell; set only for a move that may leave the cell.
    ``move``: kind of the move of an existing server; None for new servers.
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
        """Return the instances that a hint names, except those that the requester may not see."""
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
        """Return the request for a move of one server of this request, with the same hints, group and zone.

        A forced host of this request is not copied. ``leaving``: service hosts to exclude. ``flavor``: the new flavor
        of a resize. ``host``, ``node``: requested destination, which the filters check. Source: spec SCHEDULER §1.
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

    def of_new_server(self) -> "RequestSpec":
        """Return the request for a new server with the same properties: in no server group yet, and on any host."""
        return replace(
            self,
            instance_uuids=(),
            force_host=None,
            force_node=None,
            requested_host=None,
            requested_node=None,
            ignore_hosts=frozenset(),
            tried=(),
            group=None,
        )

    def with_query(self, **changes: Any) -> "RequestSpec":
        """Return a copy of this request with ``changes`` applied to fields of its resource query."""
        return replace(self, query=replace(self.query, **changes))

    def requiring(self, *traits: str) -> "RequestSpec":
        """Return a copy of this request that also requires ``traits`` of the host's own provider."""
        return self.with_query(root_required=self.query.root_required.union(traits))


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """The stored form of one request, shared by all servers of the request.

    ``user_data``: in base64, as sent by the user. ``key``: copy of the requested public key; the key pair itself may
    have been deleted since.
    ``trusted_certs``: ids of the certificates trusted for the image's signature. ``disks``: requested local disks.
    """

    uuid: str
    spec: RequestSpec
    group_uuid: str | None = None
    user_data: str | None = field(default=None, repr=False)
    key: PublicKey | None = None
    trusted_certs: tuple[str, ...] = ()
    disks: LocalDisks = NO_LOCAL_DISKS
