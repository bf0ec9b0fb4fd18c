# SPDX-License-Identifier: Apache-2.0
"""Elements of XML: the words and numbers that descriptions hold, and nothing that XML cannot hold."""

import re
from xml.etree import ElementTree as ET

from kilonova.errors import UnsupportedGuest

#: What XML 1.0 has no way to write, and the tabs and lines that a reader would take for spaces.
_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def child(parent: ET.Element, tag: str, text: object = None, **attributes: object) -> ET.Element:
    """Add an element and return it. What is None is left out. Raises: UnsupportedGuest for a text XML cannot hold."""
    given = {name: _written(tag, value) for name, value in attributes.items() if value is not None}
    element = ET.SubElement(parent, tag, given)
    if text is not None:
        element.text = _written(tag, text)
    return element


def flag(value: bool, otherwise: str | None = None) -> str | None:
    """Return yes, or what stands for no; None leaves the attribute out."""
    return "yes" if value else otherwise


def on_off(value: bool) -> str:
    return "on" if value else "off"


def _written(tag: str, value: object) -> str:
    text = str(value)
    if _FORBIDDEN.search(text) is not None:
        raise UnsupportedGuest(f"The {tag} of the guest, {text!a}, has characters that libvirt cannot be told of.")
    return text
