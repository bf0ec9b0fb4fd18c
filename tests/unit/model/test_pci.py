# SPDX-License-Identifier: Apache-2.0
from kilonova.model.pci import PciPool


def test_a_pool_that_lost_devices_in_use_has_no_free_ones() -> None:
    assert PciPool(0, "10de", "1db4", 3, used=1).free == 2
    assert PciPool(0, "10de", "1db4", 1, used=3).free == 0


def test_a_tag_cannot_replace_the_facts_of_the_hardware() -> None:
    pool = PciPool(0, "10de", "1db4", 1, tags=(("physical_network", "a"), ("vendor_id", "ffff")))
    assert pool.facts() == {
        "physical_network": "a",
        "vendor_id": "10de",
        "product_id": "1db4",
        "dev_type": "type-PCI",
    }


def test_numbers_and_counts_are_not_part_of_the_identity_of_devices() -> None:
    assert PciPool(0, "10de", "1db4", 1, 1).identity == PciPool(7, "10de", "1db4", 4, 1, used=2).identity
    assert PciPool(0, "10de", "1db4", 1, 1).identity != PciPool(0, "10de", "1db4", 1, None).identity
