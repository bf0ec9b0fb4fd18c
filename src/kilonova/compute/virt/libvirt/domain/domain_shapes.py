# SPDX-License-Identifier: Apache-2.0
"""What libvirt's schema has to say of a domain: the same for guests that are alike.

Checking a definition against the schema takes libvirt several times as long as everything else it does with it, so it
is done once for each shape: the elements, the attributes, and the words that they have, without numbers, paths and
texts. libvirt itself refuses numbers that make no sense.
"""

import re
import threading

#: So many shapes at most are remembered: guests may be asked for with any number of devices.
_MOST = 1000
_METADATA = re.compile("<metadata>.*</metadata>", re.DOTALL)
_FREE = re.compile(' (?:address|bridge|dev|file)="[^"]*"')
_NUMBER = re.compile('="-?[0-9][0-9a-fx.,:^-]*"')
_TEXT = re.compile(">[^<]+<")


def shape_of(xml: str) -> str:
    """Return the shape of a domain that ``domain_xml`` has written."""
    shape = _METADATA.sub("", xml)
    for what, instead in ((_FREE, ""), (_NUMBER, '=""'), (_TEXT, "><")):
        shape = what.sub(instead, shape)
    return shape


class CheckedShapes:
    """The shapes that a libvirtd has found to be right."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shapes: set[str] = set()

    def has(self, xml: str) -> bool:
        with self._lock:
            return shape_of(xml) in self._shapes

    def add(self, xml: str) -> None:
        with self._lock:
            if len(self._shapes) >= _MOST:
                self._shapes.clear()
            self._shapes.add(shape_of(xml))

    def forget(self) -> None:
        """Another libvirtd may have another schema."""
        with self._lock:
            self._shapes.clear()
