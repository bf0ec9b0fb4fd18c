# SPDX-License-Identifier: Apache-2.0
"""Options of a guest that a flavor (``hw:name``) or an image (``hw_name``) may set."""

from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.model.image_properties import image_property
from kilonova.scheduler.reads import Reads, names

_TRUE = frozenset({"1", "t", "true", "on", "y", "yes"})


def guest_option(flavor: Flavor, image: Image | None, name: str, prefix: str = "hw") -> str | None:
    """Return an option as it is written; the flavor's counts where both set it, empty ones count as absent."""
    return flavor.extra_specs.get(f"{prefix}:{name}") or image_property(image, f"{prefix}_{name}")


def guest_option_reads(*options: str, prefix: str = "hw") -> Reads:
    """Return what is read by whoever asks for these options."""
    return Reads(
        extra_specs=names(*(f"{prefix}:{name}" for name in options)),
        properties=names(*(f"{prefix}_{name}" for name in options)),
    )


def is_true(value: str | None) -> bool:
    """Tell whether a text stands for "yes"; whatever is no such text stands for "no"."""
    return value is not None and value.strip().lower() in _TRUE


def is_set(flavor: Flavor, image: Image | None, name: str) -> bool:
    """Tell whether flavor or image switch an option on."""
    return is_true(guest_option(flavor, image, name))


def whole_number(text: str) -> int | None:
    """Return an amount that is not negative (``4``, ``+4``, `` 4 ``), None for any other text."""
    try:
        number = int(text)
    except ValueError:
        return None
    return number if number >= 0 else None
