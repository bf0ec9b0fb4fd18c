# SPDX-License-Identifier: Apache-2.0
"""The Placement query (resources, traits, request groups) of a flavor and an image."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping

from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.model.request_spec import ISOLATE, RequestSpec, ResourceGroup, ResourceQuery
from kilonova.model.vocabulary import is_resource_class
from kilonova.records import replace
from kilonova.scheduler.guest_features import FEATURE_READS, cpu_pinning, feature_needs, thread_needs
from kilonova.scheduler.guest_options import whole_number
from kilonova.scheduler.numa_request import NUMA_READS
from kilonova.scheduler.reads import Keys, Reads

#: Extra spec or image property for Placement. Regex groups: ``resources`` or ``trait``, the suffix, the class or trait.
PLACEMENT_KEY = re.compile(r"(resources|trait)([A-Za-z0-9_-]{0,64}):(.*)", re.DOTALL)

_TRAIT = re.compile(r"[A-Z0-9_]+")
_MIB_PER_GIB = 1024
_MOST = 2**31 - 1  # largest possible inventory; larger amounts, which fit on no host, are reduced to this value
_POLICIES = frozenset({"none", ISOLATE})


def _asks(key: str) -> bool:
    """Tell whether an extra spec requests a resource or a trait; invalid resource class names are ignored."""
    found = PLACEMENT_KEY.fullmatch(key)
    return found is not None and (found[1] == "trait" or is_resource_class(found[3]))


def _is_trait_of_image(key: str) -> bool:
    found = PLACEMENT_KEY.fullmatch(key)
    return found is not None and found.group(1, 2) == ("trait", "")


#: The extra specs and image properties that determine the Placement query of a server.
RESOURCE_READS = (
    FEATURE_READS
    | NUMA_READS
    | Reads(
        extra_specs=Keys(names=frozenset({"group_policy"}), matching=(_asks,)),
        properties=Keys(matching=(_is_trait_of_image,)),
    )
)


def with_resources(spec: RequestSpec) -> RequestSpec:
    """Return the request with the resources and traits of its flavor, image and ports added to its Placement query.

    The query keeps its other conditions.
    """
    asked = resource_query(spec.flavor, spec.image, volume_backed=spec.volume_backed)
    if any(network.groups for network in spec.networks):
        asked = _with_ports(asked, spec)
    return replace(
        spec,
        query=replace(
            spec.query,
            resources=asked.resources,
            required=spec.query.required | asked.required,
            forbidden=spec.query.forbidden | asked.forbidden,
            groups=asked.groups,
            group_policy=asked.group_policy,
            same_subtrees=asked.same_subtrees,
            fallback=asked.fallback,
        ),
    )


def query_of_ports(spec: RequestSpec) -> ResourceQuery:
    """Return the Placement query of the ports of a request, without flavor and image."""
    return _with_ports(ResourceQuery(), spec)


def _with_ports(query: ResourceQuery, spec: RequestSpec) -> ResourceQuery:
    """Return the query with the request groups of ports. The flavor's ``group_policy`` applies to these groups, too."""
    groups = tuple(group for network in spec.networks for group in network.groups)
    subtrees = tuple(network.same_subtree for network in spec.networks if network.same_subtree)
    return replace(
        query,
        groups=(*query.groups, *groups),
        group_policy=_group_policy(spec.flavor),
        same_subtrees=subtrees,
        fallback=None if query.fallback is None else _with_ports(query.fallback, spec),
    )


def _group_policy(flavor: Flavor) -> str | None:
    policy = flavor.extra_specs.get("group_policy", "").strip().lower()
    return policy if policy in _POLICIES else None


def resource_query(flavor: Flavor, image: Image | None = None, *, volume_backed: bool = False) -> ResourceQuery:
    """Return the resources and traits that ``flavor`` and ``image`` request.

    ``resources:RC=n`` in any group replaces the flavor's own amount; 0 removes the class. As in Nova, these are
    ignored: unknown resource classes without ``CUSTOM_``, amounts that are not whole numbers, trait values other than
    ``required`` and ``forbidden``, and forbidden traits of an image. A request with an invalid trait name
    (``custom_lower``) matches no provider, even if it forbids the trait. A group with a suffix takes all its resources
    from one provider that has its traits. Traits of a suffix without resources belong to the group without suffix.

    A server that boots from a volume needs no root disk. Swap is rounded up to whole GiB. Pinned CPUs are requested as
    PCPU. If all CPUs are pinned, ``fallback`` requests VCPU from hosts without PCPU.

    Source: spec SCHEDULER §7.
    """
    disk_gib = (0 if volume_backed else flavor.root_gib) + flavor.ephemeral_gib + -(-flavor.swap_mib // _MIB_PER_GIB)
    if not flavor.extra_specs and (image is None or not image.properties):
        return ResourceQuery(_wanted({"VCPU": flavor.vcpus, "MEMORY_MB": flavor.memory_mib, "DISK_GB": disk_gib}))
    amounts, traits = _read(flavor.extra_specs)
    overridden = set().union(*amounts.values())
    needs = feature_needs(flavor, image)
    threads = thread_needs(flavor, image)
    plain = {"MEMORY_MB": flavor.memory_mib, "DISK_GB": disk_gib}
    groups = tuple(
        ResourceGroup(suffix, _wanted(given), traits.required(suffix), traits.forbidden(suffix))
        for suffix, given in amounts.items()
        if suffix and _wanted(given)
    )
    own = {"", *traits.suffixes} - {group.suffix for group in groups}
    required = frozenset().union(*map(traits.required, own)) | image_traits(image) | needs.required
    forbidden = frozenset().union(*map(traits.forbidden, own)) | needs.forbidden
    policy = _group_policy(flavor) if groups else None

    def query(cpus: Mapping[str, int], fallback: ResourceQuery | None = None) -> ResourceQuery:
        asked = {name: amount for name, amount in plain.items() if name not in overridden}
        return ResourceQuery(
            resources=_wanted({**cpus, **asked, **amounts.get("", {}), **cpus, **needs.resources}),
            required=required,
            forbidden=forbidden,
            groups=groups,
            group_policy=policy,
            fallback=fallback,
        )

    shared = query({} if overridden & {"PCPU", "VCPU"} else {"VCPU": flavor.vcpus})
    pinning = cpu_pinning(flavor, image)
    asked = shared
    if pinning is not None:
        cpus = {"PCPU": pinning.dedicated, **({} if pinning.everything else {"VCPU": pinning.shared})}
        asked = query(cpus, fallback=shared if pinning.everything else None)
    return replace(asked, required=required | threads.required, forbidden=forbidden | threads.forbidden)


def required_traits(flavor: Flavor, image: Image | None) -> frozenset[str]:
    """Return the traits that a server requires in any request group, including traits implied by guest features."""
    query = resource_query(flavor, image)
    return query.required.union(*(group.required for group in query.groups))


def flavor_traits(flavor: Flavor) -> tuple[frozenset[str], frozenset[str]]:
    """Return the (required, forbidden) traits in the extra specs of a flavor, merged over all request groups."""
    traits = _read(flavor.extra_specs)[1]
    return (
        frozenset().union(*map(traits.required, traits.suffixes)),
        frozenset().union(*map(traits.forbidden, traits.suffixes)),
    )


def image_traits(image: Image | None) -> frozenset[str]:
    """Return the traits that an image requires. Images have no request groups, so keys with a suffix are ignored."""
    properties: Mapping[str, str] = image.properties if image is not None else {}
    return frozenset(
        found[3]
        for key, value in properties.items()
        if value == "required" and (found := PLACEMENT_KEY.fullmatch(key)) and found.group(1, 2) == ("trait", "")
    )


class _Traits:
    """Required and forbidden traits by group suffix."""

    def __init__(self) -> None:
        self._of: defaultdict[tuple[str, str], set[str]] = defaultdict(set)

    def add(self, suffix: str, value: str, name: str) -> None:
        if value in {"required", "forbidden"}:
            self._of[suffix, value].add(name)

    @property
    def suffixes(self) -> set[str]:
        return {suffix for suffix, _ in self._of}

    def required(self, suffix: str) -> frozenset[str]:
        return frozenset(self._of.get((suffix, "required"), ()))

    def forbidden(self, suffix: str) -> frozenset[str]:
        return frozenset(self._of.get((suffix, "forbidden"), ()))


def _read(extra_specs: Mapping[str, str]) -> tuple[dict[str, Counter[str]], _Traits]:
    """Parse the resource amounts and the traits in extra specs, by group suffix."""
    amounts: dict[str, Counter[str]] = {}
    traits = _Traits()
    for key, value in extra_specs.items():
        found = PLACEMENT_KEY.fullmatch(key)
        if found is None:
            continue
        kind, suffix, name = found.groups()
        if kind == "trait":
            possible = _TRAIT.fullmatch(name) is not None
            traits.add(suffix, value if possible or value != "forbidden" else "required", name)
        elif is_resource_class(name) and (amount := whole_number(value)) is not None:
            amounts.setdefault(suffix, Counter())[name] = min(amount, _MOST)
    return amounts, traits


def _wanted(amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if amount}
