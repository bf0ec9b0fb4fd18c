# SPDX-License-Identifier: Apache-2.0
"""Cache of domain XML shapes that libvirt has validated against its schema.

The shape of an XML text consists of its elements, attributes and keywords, without numbers, paths and texts. Validation
takes several times as long as the rest of the definition of a domain, so each shape is validated only once. Numbers
need no validation, because libvirt always rejects invalid numbers.
"""

import re
import threading

#: Maximum number of cached shapes, since users can request any number of device combinations.
_MOST = 1000
_METADATA = re.compile("<metadata>.*</metadata>", re.DOTALL)
_FREE = re.compile(' (?:address|bridge|dev|file|interfaceid)="[^"]*"|(?<=<alias) name="[^"]*"')
_NUMBER = re.compile('="-?[0-9][0-9a-fx.,:^-]*"')
_TEXT = re.compile(">[^<]+<")


def shape_of(xml: str) -> str:
    """Return the shape of an XML text of ``domain_xml``: its elements, attributes and keywords."""
    shape = _METADATA.sub("", xml)
    for what, instead in ((_FREE, ""), (_NUMBER, '=""'), (_TEXT, "><")):
        shape = what.sub(instead, shape)
    return shape


class CheckedShapes:
    """The shapes that a libvirtd has validated."""

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
        """Clear the cache, since another libvirtd may have another schema."""
        with self._lock:
            self._shapes.clear()
