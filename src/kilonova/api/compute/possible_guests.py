# SPDX-License-Identifier: Apache-2.0
"""Validation of flavor and image before a request is stored or scheduled. It refuses guests that no host can run."""

from collections.abc import Mapping

from kilonova.api.validation import invalid_field
from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.scheduler.devices.pci_request import Alias, pci_requests
from kilonova.scheduler.guest_features import require_possible
from kilonova.scheduler.numa_request import numa_request

_GIB = 1024**3


def require_possible_guest(
    flavor: Flavor, image: Image | None, aliases: Mapping[str, Alias], *, flavor_field: str, image_field: str
) -> None:
    """Raise InvalidRequest unless a guest with this flavor and image is possible.

    Sizes, extra specs, image properties, NUMA topology and PCI requests are checked. ``aliases``: the configured PCI
    aliases. ``flavor_field``, ``image_field``: fields of the body that error messages name.
    """
    if image is not None:
        _require_fitting(flavor, image, flavor_field=flavor_field, image_field=image_field)
    require_possible(flavor, image)
    numa_request(flavor, image)
    pci_requests(flavor, image, aliases)


def _require_fitting(flavor: Flavor, image: Image, *, flavor_field: str, image_field: str) -> None:
    if image.status != "active":
        raise invalid_field(image_field, f"Image {image.id} is not active.")
    if image.min_memory_mib > flavor.memory_mib:
        raise invalid_field(flavor_field, "Flavor's memory is too small for requested image.")
    too_small = image.min_disk_gib > flavor.root_gib or image.size_bytes > flavor.root_gib * _GIB
    if flavor.root_gib and too_small:
        raise invalid_field(flavor_field, "Flavor's disk is too small for requested image.")
