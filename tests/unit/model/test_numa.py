# SPDX-License-Identifier: Apache-2.0
from kilonova.model.numa import HostCell, Pages


def test_cpus_without_siblings_are_cores_of_their_own() -> None:
    cell = HostCell(0, cpuset=frozenset({0, 5}), pcpuset=frozenset({1, 2, 3}), siblings=(frozenset({1, 2}),))
    assert cell.cores == (frozenset({1, 2}), frozenset({0}), frozenset({3}), frozenset({5}))
    assert cell.threads == 2
    assert HostCell(0, cpuset=frozenset({0})).threads == 1


def test_reserved_and_used_pages_and_pinned_cpus_are_not_free() -> None:
    assert Pages(2048, 10, reserved=3, used=4).free == 3
    cell = HostCell(0, pcpuset=frozenset({1, 2}), pinned=frozenset({2, 9}), memory_mib=8, used_memory_mib=5)
    assert cell.free_pcpus == {1}
    assert cell.free_memory_mib == 3
