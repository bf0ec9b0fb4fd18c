# SPDX-License-Identifier: Apache-2.0
"""Helpers that write XML elements and reject texts that XML cannot represent."""

import re
from xml.etree import ElementTree as ET

from kilonova.errors import UnsupportedGuest

#: Characters that XML 1.0 cannot represent, and tabs and line breaks, which parsers turn into spaces.
_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def child(parent: ET.Element, tag: str, text: object = None, **attributes: object) -> ET.Element:
    """Add an element to ``parent`` and return it. Attributes that are None are omitted.

    Raises: UnsupportedGuest for a text that XML cannot represent.
    """
    given = {name: _written(tag, value) for name, value in attributes.items() if value is not None}
    element = ET.SubElement(parent, tag, given)
    if text is not None:
        element.text = _written(tag, text)
    return element


def flag(value: bool, otherwise: str | None = None) -> str | None:
    """Return the attribute for a flag: "yes" if the flag is on, else ``otherwise``, where None omits the attribute."""
    return "yes" if value else otherwise


def on_off(value: bool) -> str:
    return "on" if value else "off"


def _written(tag: str, value: object) -> str:
    text = str(value)
    if _FORBIDDEN.search(text) is not None:
        raise UnsupportedGuest(f"The {tag} of the guest, {text!a}, contains characters that XML cannot represent.")
    return text
