# SPDX-License-Identifier: Apache-2.0
"""Options of a guest that a flavor (``hw:name``) or an image (``hw_name``) may set."""

from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.model.image_properties import image_property

_TRUE = frozenset({"1", "t", "true", "on", "y", "yes"})


def guest_option(flavor: Flavor, image: Image | None, name: str, prefix: str = "hw") -> str | None:
    """Return an option in lower case; the flavor's counts where both set it, empty ones count as absent."""
    value = flavor.extra_specs.get(f"{prefix}:{name}") or image_property(image, f"{prefix}_{name}")
    return value.strip().lower() if value else None


def is_set(flavor: Flavor, image: Image | None, name: str) -> bool:
    """Tell whether flavor or image switch an option on."""
    return guest_option(flavor, image, name) in _TRUE
