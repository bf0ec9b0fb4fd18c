# SPDX-License-Identifier: Apache-2.0
"""Trees of providers, and providers that share with other trees."""

from tests.unit.placement.small_trees import SHARES, find, group, of, provider


def test_sharing_needs_the_trait_and_an_aggregate_in_common() -> None:
    asked = (group(VCPU=1, DISK_GB=1),)
    host = provider("h1", aggregates="share", VCPU=4)
    assert find(host, provider("nfs", aggregates="share", DISK_GB=9), groups=asked) == set()
    assert find(host, provider("nfs", traits=SHARES, aggregates="other", DISK_GB=9), groups=asked) == set()
    assert find(host, provider("nfs", traits=SHARES, DISK_GB=9), groups=asked) == set()
    # Any member of the tree brings the aggregate in.
    tree = (provider("h1", VCPU=4), provider("numa", "h1", aggregates="share"))
    nfs = provider("nfs", traits=SHARES, aggregates="share", DISK_GB=9)
    assert find(*tree, nfs, groups=asked) == {of(h1={"VCPU": 1}, nfs={"DISK_GB": 1})}


def test_what_only_a_share_serves_comes_once_for_all_its_anchors() -> None:
    hosts = [provider(f"h{index}", aggregates="share", VCPU=1) for index in range(3)]
    nfs = provider("nfs", traits=SHARES, aggregates="share", DISK_GB=9)
    for asked in (group(DISK_GB=1), group("1", DISK_GB=1)):
        assert find(*hosts, nfs, groups=(asked,)) == {of(nfs={"DISK_GB": 1})}
