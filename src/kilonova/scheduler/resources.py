# SPDX-License-Identifier: Apache-2.0
"""What a flavor and an image ask of Placement.

Groups with a suffix (``resources1:VGPU=1``) ask for one provider each. As long as a host is a single provider that
means "from this host as well", so their amounts and traits are added to those of the group without a suffix.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.model.request_spec import RequestSpec, ResourceQuery

_KEY = re.compile(r"(resources|trait)[A-Za-z0-9_-]{0,64}:([A-Z0-9_]+)")
_MIB_PER_GIB = 1024


def with_resources(spec: RequestSpec) -> RequestSpec:
    """Return the request with its resource query filled from flavor and image; other parts of the query are kept."""
    asked = resource_query(spec.flavor, spec.image, volume_backed=spec.volume_backed)
    return replace(
        spec,
        query=replace(
            spec.query,
            resources=asked.resources,
            required=spec.query.required | asked.required,
            forbidden=spec.query.forbidden | asked.forbidden,
        ),
    )


def resource_query(flavor: Flavor, image: Image | None = None, *, volume_backed: bool = False) -> ResourceQuery:
    """Return the resources and traits that ``flavor`` and ``image`` ask for.

    ``resources:RC=n`` replaces the flavor's own amount, 0 drops the class. An amount that is no whole number, a trait
    value other than ``required`` or ``forbidden`` and a forbidden trait of an image count for nothing, as in Nova.
    A server that boots from a volume needs no root disk. Swap is rounded up to whole GiB.

    Source: spec SCHEDULER §7.
    """
    overrides = _overrides(flavor.extra_specs)
    root_gib = 0 if volume_backed else flavor.root_gib
    amounts = {
        "VCPU": flavor.vcpus,
        "MEMORY_MB": flavor.memory_mib,
        "DISK_GB": root_gib + flavor.ephemeral_gib + -(-flavor.swap_mib // _MIB_PER_GIB),
    }
    if "PCPU" in overrides:
        del amounts["VCPU"]
    amounts.update(overrides)
    required, forbidden = flavor_traits(flavor)
    return ResourceQuery(
        resources={name: amount for name, amount in amounts.items() if amount},
        required=required | image_traits(image),
        forbidden=forbidden,
    )


def flavor_traits(flavor: Flavor) -> tuple[frozenset[str], frozenset[str]]:
    """Return the (required, forbidden) traits of a flavor, of all its groups."""
    traits: dict[str, set[str]] = {"required": set(), "forbidden": set()}
    for key, value in flavor.extra_specs.items():
        if (found := _KEY.fullmatch(key)) and found[1] == "trait" and value in traits:
            traits[value].add(found[2])
    return frozenset(traits["required"]), frozenset(traits["forbidden"])


def image_traits(image: Image | None) -> frozenset[str]:
    """Return the traits an image requires."""
    properties: Mapping[str, str] = image.properties if image is not None else {}
    return frozenset(
        found[2]
        for key, value in properties.items()
        if value == "required" and (found := _KEY.fullmatch(key)) and found[1] == "trait"
    )


def _overrides(extra_specs: Mapping[str, str]) -> Counter[str]:
    amounts: Counter[str] = Counter()
    for key, value in extra_specs.items():
        found = _KEY.fullmatch(key)
        if found and found[1] == "resources" and value.strip().isdecimal():
            amounts[found[2]] += int(value)
    return amounts
