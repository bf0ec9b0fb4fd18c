# SPDX-License-Identifier: Apache-2.0
"""Topologies, cells, pins and pages of guests."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.compute.virt.libvirt.domain.description import CpuTuning
from kilonova.compute.virt.libvirt.domain.guest_cpus import Topology, choose_topology
from kilonova.compute.virt.libvirt.domain.guest_options import GuestOptions
from kilonova.compute.virt.libvirt.host.capabilities import CellCpu, CellFacts
from kilonova.config.libvirt import LibvirtSettings
from kilonova.errors import UnsupportedGuest
from kilonova.model.guest_devices import GuestCell, GuestDevices
from support.guest_descriptions import HOST, described, guest_of, written

TWO_CELLS = replace(
    HOST,
    cells=tuple(
        CellFacts(cell, 2**20, tuple(CellCpu(cpu) for cpu in range(4 * cell, 4 * cell + 4)), {4: 1, 2048: 1})
        for cell in (0, 1)
    ),
)


@pytest.mark.parametrize(
    ("vcpus", "specs", "properties", "expected"),
    [
        (4, {}, {}, (4, 1, 1)),
        (4, {"hw:cpu_sockets": "2"}, {}, (2, 2, 1)),
        (8, {"hw:cpu_sockets": "2", "hw:cpu_threads": "2"}, {}, (2, 2, 2)),
        (8, {"hw:cpu_max_sockets": "2"}, {}, (2, 4, 1)),
        (8, {"hw:cpu_max_sockets": "2", "hw:cpu_max_cores": "2"}, {}, (2, 2, 2)),
        (8, {"hw:cpu_sockets": "8"}, {"hw_cpu_max_sockets": "4"}, (4, 2, 1)),
        (8, {"hw:cpu_sockets": "8", "hw:cpu_threads": "1"}, {"hw_cpu_cores": "8"}, (1, 8, 1)),
        (6, {"hw:cpu_sockets": "4"}, {}, (6, 1, 1)),
        (7, {"hw:cpu_cores": "7"}, {}, (1, 7, 1)),
    ],
)
def test_topologies(
    vcpus: int, specs: dict[str, str], properties: dict[str, str], expected: tuple[int, int, int]
) -> None:
    cpu = described(guest_of(specs, properties, vcpus=vcpus)).cpu
    assert (cpu.sockets, cpu.cores, cpu.threads) == expected


@pytest.mark.parametrize(
    ("specs", "properties", "named"),
    [
        ({"hw:cpu_max_sockets": "2"}, {"hw_cpu_max_sockets": "4"}, "hw_cpu_max_sockets"),
        ({"hw:cpu_max_cores": "2"}, {"hw_cpu_cores": "4"}, "hw_cpu_cores"),
        ({"hw:cpu_max_sockets": "1", "hw:cpu_max_cores": "1", "hw:cpu_max_threads": "1"}, {}, "hw_cpu_max_threads"),
        ({"hw:cpu_sockets": "two"}, {}, "hw:cpu_sockets"),
    ],
)
def test_impossible_topologies(specs: dict[str, str], properties: dict[str, str], named: str) -> None:
    with pytest.raises(UnsupportedGuest, match=named):
        described(guest_of(specs, properties, vcpus=4))


_SMALL = st.none() | st.integers(1, 9)


@settings(deadline=None)  # on a busy machine
@given(st.integers(1, 24), st.tuples(_SMALL, _SMALL, _SMALL), st.tuples(_SMALL, _SMALL, _SMALL))
def test_a_topology_is_the_best_of_all_that_are_possible(
    vcpus: int, wanted: tuple[int | None, ...], limits: tuple[int | None, ...]
) -> None:
    parts = ("sockets", "cores", "threads")
    specs = {f"hw:cpu_{part}": str(number) for part, number in zip(parts, wanted, strict=True) if number}
    specs |= {f"hw:cpu_max_{part}": str(number) for part, number in zip(parts, limits, strict=True) if number}
    most = [number or vcpus for number in limits]
    counts = range(1, vcpus + 1)
    every = [(a, b, vcpus // (a * b)) for a, b in product(counts, counts) if vcpus % (a * b) == 0]
    possible = [each for each in every if all(a <= b for a, b in zip(each, most, strict=True))]
    options = GuestOptions(guest_of(specs, vcpus=vcpus))
    if not possible:
        with pytest.raises(UnsupportedGuest):
            choose_topology(vcpus, options)
        return
    usable = wanted if all((a or 0) <= (b or a or 0) for a, b in zip(wanted, limits, strict=True)) else (None,) * 3

    def met(each: tuple[int, ...]) -> int:
        return sum(a == b for a, b in zip(each, usable, strict=True))

    chosen = choose_topology(vcpus, options)
    found = (chosen.sockets, chosen.cores, chosen.threads)
    assert found in possible
    assert met(found) == max(map(met, possible))
    equal = [each for each in possible if met(each) == met(found)]
    assert found == max(equal, key=lambda each: (each[0] * each[1], each[0]))
    assert chosen == Topology(*found)


def tuning(specs: dict[str, str], *cells: GuestCell, shared: frozenset[int] = frozenset()) -> CpuTuning:
    vcpus = sum(len(cell.vcpus) for cell in cells)
    guest = guest_of(specs, reserved=GuestDevices(cells), vcpus=vcpus or 2)
    return described(guest, host=TWO_CELLS, shared_cpus=shared).tuning


def test_pinned_cpus_run_where_the_claim_says_and_the_emulator_on_its_own() -> None:
    found = tuning(
        {}, GuestCell(0, frozenset({0, 1}), 32, ((0, 2), (1, 3)), frozenset({1})), GuestCell(1, frozenset({2}), 32)
    )
    everywhere = frozenset({4, 5, 6, 7})
    assert found.pins == ((0, frozenset({2})), (1, frozenset({3})), (2, everywhere))
    assert found.emulator == {1}


def test_the_emulator_runs_where_the_vcpus_do_unless_they_run_in_real_time() -> None:
    cell = GuestCell(0, frozenset({0, 1}), 64, ((0, 2), (1, 3)))
    assert tuning({}, cell).emulator == {2, 3}
    real_time = {"hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "^0"}
    found = tuning(real_time, cell)
    assert (found.realtime, found.emulator) == ({1}, {2})
    sharing = {"hw:cpu_realtime": "yes", "hw:emulator_threads_policy": "share"}
    assert tuning(sharing, cell, shared=frozenset({0, 1})).emulator == {0, 1}
    with pytest.raises(UnsupportedGuest, match="cpu_shared_set"):
        tuning(sharing, cell)


def test_a_guest_without_cells_floats_on_the_shared_cpus() -> None:
    assert tuning({}, shared=frozenset({1, 5})).floating == {1, 5}
    cell = GuestCell(1, frozenset({0, 1}), 64)
    found = tuning({}, cell, shared=frozenset({1, 5}))
    assert (found.floating, found.pins) == (frozenset(), ((0, frozenset({5})), (1, frozenset({5}))))


def test_cells_are_where_the_claim_says_and_of_such_pages() -> None:
    cells = (GuestCell(1, frozenset({0}), 32, page_size_kib=2048), GuestCell(0, frozenset({1}), 32, page_size_kib=4))
    root = written(described(guest_of(vcpus=2, reserved=GuestDevices(cells)), host=TWO_CELLS))
    nodes = [(node.get("cellid"), node.get("nodeset")) for node in root.iterfind("numatune/memnode")]
    assert nodes == [("0", "1"), ("1", "0")]
    pages = [(page.get("size"), page.get("nodeset")) for page in root.iterfind("memoryBacking/hugepages/page")]
    assert pages == [("2048", "0")]
    assert [cell.get("cpus") for cell in root.iterfind("cpu/numa/cell")] == ["0", "1"]


def test_memory_is_locked_on_request_and_in_real_time() -> None:
    locked = described(guest_of({"hw:locked_memory": "yes", "hw:mem_page_size": "small"}))
    assert (locked.locked_memory, locked.merged_memory) == (True, True)
    real_time = described(guest_of({"hw:cpu_realtime": "yes"}))
    assert (real_time.locked_memory, real_time.merged_memory) == (True, False)


@pytest.mark.parametrize(
    ("settings", "mode", "model"),
    [
        (LibvirtSettings(), "host-model", None),
        (LibvirtSettings(cpu_mode="none"), None, None),
        (LibvirtSettings(cpu_mode="custom", cpu_models=("Nehalem", "EPYC")), "custom", "Nehalem"),
    ],
)
def test_models_of_cpus(settings: LibvirtSettings, mode: str | None, model: str | None) -> None:
    cpu = described(guest_of(), settings=settings).cpu
    assert (cpu.mode, cpu.model) == (mode, model)


def test_features_of_cpus() -> None:
    settings = LibvirtSettings(cpu_model_extra_flags=("+AES", "-vmx", "pcid"))
    cpu = described(guest_of(), settings=settings).cpu
    assert cpu.features == (("aes", "require"), ("vmx", "disable"), ("pcid", "require"))
    nothing = LibvirtSettings(cpu_mode="none", cpu_model_extra_flags=("aes",))
    assert described(guest_of(), settings=nothing).cpu.features == ()


def test_what_the_host_cannot_give_as_cpu_names_the_option() -> None:
    host = replace(HOST, cpu_modes=frozenset({"host-model", "custom"}))
    with pytest.raises(UnsupportedGuest, match=r"\[libvirt\] cpu_mode=host-passthrough"):
        described(guest_of(), host=host, settings=LibvirtSettings(cpu_mode="host-passthrough"))
    with pytest.raises(UnsupportedGuest, match=r"\[libvirt\] cpu_models=Cray"):
        described(guest_of(), settings=LibvirtSettings(cpu_mode="custom", cpu_models=("Cray",)))
    with pytest.raises(UnsupportedGuest, match=r"needs \[libvirt\] cpu_models"):
        described(guest_of(), settings=LibvirtSettings(cpu_mode="custom", cpu_model_extra_flags=("aes",)))


def test_time_on_cpus_is_limited_as_the_flavor_says() -> None:
    root = written(
        described(guest_of({"quota:cpu_shares": "512", "quota:cpu_period": "2000", "quota:cpu_quota": "-1"}))
    )
    assert {name: root.findtext(f"cputune/{name}") for name in ("shares", "period", "quota")} == {
        "shares": "512",
        "period": "2000",
        "quota": "-1",
    }


@pytest.mark.parametrize(
    ("architecture", "modes", "expected"),
    [
        ("x86_64", {"host-passthrough", "host-model", "maximum", "custom"}, "host-model"),
        ("aarch64", {"host-passthrough", "maximum", "custom"}, "host-passthrough"),
        ("aarch64", {"maximum", "custom"}, "maximum"),
        ("riscv64", {"host-passthrough", "custom"}, "host-passthrough"),
        ("s390x", {"custom"}, None),
    ],
)
def test_what_guests_see_as_their_cpu_where_operators_do_not_say(
    architecture: str, modes: set[str], expected: str | None
) -> None:
    host = replace(HOST, architecture=architecture, cpu_modes=frozenset(modes), machines={}, default_machine="virt")
    assert described(guest_of(), host=host).cpu.mode == expected
