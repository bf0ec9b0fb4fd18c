# SPDX-License-Identifier: Apache-2.0
"""Guest options that a flavor extra spec (``hw:name``) or an image property (``hw_name``) can set."""

from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.model.image_properties import image_property
from kilonova.scheduler.reads import Reads, names

_TRUE = frozenset({"1", "t", "true", "on", "y", "yes"})


def guest_option(flavor: Flavor, image: Image | None, name: str, prefix: str = "hw") -> str | None:
    """Return the raw value of an option; the flavor takes precedence over the image, and an empty value means unset."""
    return flavor.extra_specs.get(f"{prefix}:{name}") or image_property(image, f"{prefix}_{name}")


def guest_option_reads(*options: str, prefix: str = "hw") -> Reads:
    """Return the extra specs and image properties that set these options, for the ``reads`` of a rule."""
    return Reads(
        extra_specs=names(*(f"{prefix}:{name}" for name in options)),
        properties=names(*(f"{prefix}_{name}" for name in options)),
    )


def is_true(value: str | None) -> bool:
    """Tell whether a text is a true value (``1``, ``true``, ``yes``, ``on``, …); any other text is false."""
    return value is not None and value.strip().lower() in _TRUE


def is_set(flavor: Flavor, image: Image | None, name: str) -> bool:
    """Tell whether the flavor or the image sets an option to a true value."""
    return is_true(guest_option(flavor, image, name))


def whole_number(text: str) -> int | None:
    """Parse a non-negative integer (``4``, ``+4``, `` 4 ``); return None for any other text."""
    try:
        number = int(text)
    except ValueError:
        return None
    return number if number >= 0 else None
