# SPDX-License-Identifier: Apache-2.0
from xml.etree import ElementTree as ET

import pytest

from kilonova.compute.virt.libvirt.domain.xml_elements import child, flag, on_off
from kilonova.errors import UnsupportedGuest


def test_attributes_without_a_value_are_omitted() -> None:
    root = ET.Element("root")
    child(root, "target", dev="vda", bus=None, port=0, readonly=flag(False), managed=flag(False, otherwise="no"))
    child(root, "name", "<web> & co", state=on_off(True))
    assert ET.tostring(root, "unicode") == (
        '<root><target dev="vda" port="0" managed="no" /><name state="on">&lt;web&gt; &amp; co</name></root>'
    )


@pytest.mark.parametrize("character", ["\x00", "\t", "\n", "\x1b", "\x85", "\ud800", "\ufffe"])
def test_characters_that_xml_cannot_represent_are_refused_in_texts_and_attributes(character: str) -> None:
    root = ET.Element("root")
    with pytest.raises(UnsupportedGuest, match="The title of the guest"):
        child(root, "title", f"a{character}b")
    with pytest.raises(UnsupportedGuest, match="The source of the guest"):
        child(root, "source", file=f"/disks/{character}")
