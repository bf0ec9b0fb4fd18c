# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

from kilonova.model.flavor import Flavor


def test_a_server_is_resized_to_another_flavor_whose_disk_is_not_smaller() -> None:
    flavor = Flavor("1", "m1", 1, 512, root_gib=10)
    assert flavor.may_become(replace(flavor, flavor_id="2"))
    assert flavor.may_become(replace(flavor, flavor_id="2", root_gib=11, vcpus=9))
    assert not flavor.may_become(replace(flavor, flavor_id="2", root_gib=9))
    assert not flavor.may_become(replace(flavor, root_gib=11))
