# SPDX-License-Identifier: Apache-2.0
"""Parser of a guest's extra specs and image properties."""

from collections.abc import Collection

from kilonova.errors import UnsupportedGuest
from kilonova.model.image_properties import read_property
from kilonova.model.instance import GuestSpec

_YES = frozenset({"1", "t", "true", "on", "y", "yes"})
_MOST_DIGITS = 18


class GuestOptions:
    """The flavor's extra specs (``hw:name``) and the image's properties (``hw_name``).

    For an invalid value, every method raises UnsupportedGuest, which names the extra spec or property. Empty values
    count as absent.
    """

    def __init__(self, guest: GuestSpec) -> None:
        self._specs = guest.extra_specs
        self._properties = guest.image_properties

    def spec(self, key: str) -> str | None:
        """Return an extra spec of the flavor, or None."""
        return self._specs.get(key) or None

    def property(self, name: str) -> str | None:
        """Return an image property, stored under its present or former name, or None."""
        return read_property(self._properties, name)

    def agreed(self, name: str, prefix: str = "hw") -> str | None:
        """Return a value that flavor and image may both set, but only to the same value. Raises: UnsupportedGuest."""
        of_flavor, of_image = self.spec(f"{prefix}:{name}"), self.property(f"{prefix}_{name}")
        if of_flavor is not None and of_image is not None and of_flavor.lower() != of_image.lower():
            raise contradiction(f"{prefix}:{name}", of_flavor, f"{prefix}_{name}", of_image)
        return of_flavor or of_image

    def agreed_flag(self, name: str) -> bool | None:
        """Return a flag that flavor and image may both set, but only to the same value; None if neither sets it."""
        of_flavor, of_image = self.spec_flag(f"hw:{name}"), self.property_flag(f"hw_{name}")
        if of_flavor is not None and of_image is not None and of_flavor != of_image:
            raise contradiction(f"hw:{name}", str(of_flavor), f"hw_{name}", str(of_image))
        return of_image if of_flavor is None else of_flavor

    def image_first(self, name: str) -> str | None:
        """Return the value of the image, or, if the image has none, the value of the flavor."""
        return self.property(f"hw_{name}") or self.spec(f"hw:{name}")

    def spec_flag(self, key: str) -> bool | None:
        return _flag(self.spec(key))

    def property_flag(self, name: str) -> bool | None:
        return _flag(self.property(name))

    def spec_number(self, key: str, least: int = 0, most: int | None = None) -> int | None:
        return number(key, self.spec(key), least, most)

    def property_number(self, name: str, least: int = 0, most: int | None = None) -> int | None:
        return number(name, self.property(name), least, most)


def number(name: str, text: str | None, least: int = 0, most: int | None = None) -> int | None:
    """Parse an integer from ``least`` to ``most``; None if ``text`` is None. Raises: UnsupportedGuest."""
    if text is None:
        return None
    try:
        value = int(text) if len(text) <= _MOST_DIGITS and text.isascii() else None
    except ValueError:
        value = None
    if value is None or value < least or (most is not None and value > most):
        bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise UnsupportedGuest(f"{name}={shown(text)} is not an integer {bounds}.")
    return value


def one_of(name: str, value: str | None, supported: Collection[str]) -> str | None:
    """Return ``value``, which must be supported, or None. Raises: UnsupportedGuest naming the supported values."""
    if value is None or value in supported:
        return value
    known = ", ".join(sorted(supported)) or "none"
    raise UnsupportedGuest(f"{name}={shown(value)} is not supported by this host (supported: {known}).")


def contradiction(of_flavor: str, value: str, of_image: str, other: str) -> UnsupportedGuest:
    return UnsupportedGuest(
        f"The flavor's {of_flavor}={shown(value)} contradicts the image's {of_image}={shown(other)}."
    )


def shown(text: str) -> str:
    """Return a text from a user, shortened and on one line, for use in a message."""
    plain = text if text.isprintable() else ascii(text)[1:-1]
    return plain if len(plain) <= 80 else f"{plain[:77]}…"


def _flag(text: str | None) -> bool | None:
    """Parse a flag. A text that does not mean yes means no, as everywhere in Kilonova."""
    return None if text is None else text.strip().lower() in _YES
