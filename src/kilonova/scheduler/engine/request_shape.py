# SPDX-License-Identifier: Apache-2.0
"""The shape of a request: the part of it on which the results of rules may depend. Most requests share few shapes."""

from collections.abc import Hashable

from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.model.request_spec import REBUILD_HINT, RequestedNetwork, RequestSpec, ResourceQuery

_PLAIN_PORT = "normal"


def request_shape(spec: RequestSpec, project: str) -> Hashable | None:
    """Return a key that is equal for requests of the same shape, or None if the decision must be made in full.

    ``project``: the project if any rule can distinguish it from other projects, else "".
    Decisions are made in full for requests that name a host, a server group or an existing server, for those that may
    need nested or sharing providers, and for ports that need more than a network. Mappings are compared with their
    order, because it determines the order of the rules.
    """
    query = spec.query
    named = spec.group or spec.move or spec.tried or spec.ignore_hosts or spec.source_cell
    places = spec.force_host or spec.force_node or spec.requested_host or spec.requested_node
    ports = any(network.groups or network.vnic_type != _PLAIN_PORT for network in spec.networks)
    if named or places or ports or query.groups or query.fallback is not None or REBUILD_HINT in spec.hints:
        return None
    return (
        _flavor(spec.flavor),
        None if spec.image is None else _image(spec.image),
        project,
        spec.availability_zone,
        tuple(spec.hints.items()),
        spec.volume_backed,
        tuple([_network(network) for network in spec.networks]),
        _query(query),
    )


def _flavor(flavor: Flavor) -> Hashable:
    return (
        flavor.flavor_id,
        flavor.name,
        flavor.vcpus,
        flavor.memory_mib,
        flavor.root_gib,
        flavor.ephemeral_gib,
        flavor.swap_mib,
        flavor.rxtx_factor,
        flavor.is_public,
        flavor.disabled,
        tuple(flavor.extra_specs.items()),
    )


def _image(image: Image) -> Hashable:
    return (
        image.id,
        image.name,
        image.status,
        image.disk_format,
        image.container_format,
        image.min_memory_mib,
        image.min_disk_gib,
        image.size_bytes,
        tuple(image.properties.items()),
    )


def _network(network: RequestedNetwork) -> Hashable:
    """Return what rules read of a network without a special port. Reasons name routed networks."""
    name = network.network_id if network.segments else ""
    return name, network.segments, network.physical_network, network.tunneled


def _query(query: ResourceQuery) -> Hashable:
    return (
        tuple(query.resources.items()),
        query.required,
        query.forbidden,
        query.member_of,
        query.forbidden_aggregates,
        query.root_required,
        query.root_forbidden,
        query.group_policy,
        query.same_subtrees,
    )
