# SPDX-License-Identifier: Apache-2.0
"""Intended differences from Nova. Each has a line in docs/differences-from-nova.md.

A difference decides for one answer whether it explains it, where possible by asking Nova again without the cause of the
difference.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from nova import exception
from nova.objects import ImageMetaProps
from nova.scheduler.filters.json_filter import JsonFilter

from kilonova.errors import RuleFailed
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.engine.ranking import shares
from kilonova.scheduler.host_table import ALL_ROWS, HostTable
from scheduler_peer import device_differences, nova_world
from scheduler_peer.readings import CELLS, DEVICES, PLACEMENT, REFUSED, Reading, ours_of, theirs_of


@dataclass(frozen=True)
class Case:
    """One rule, one host (the whole request for weighers), and both answers.

    ``nova``: Nova's rule. ``states``: all hosts as Nova's host states.
    """

    rule: Any
    nova: Any
    hosts: HostTable
    states: Sequence[Any]
    spec: RequestSpec
    row: int
    ours: Any
    theirs: Any

    @property
    def state(self) -> Any:
        return self.states[self.row]


@dataclass(frozen=True)
class Difference:
    why: str
    explains: Callable[[Case], bool]


@dataclass(frozen=True)
class ReadingDifference:
    why: str
    explains: Callable[[Reading], bool]


def _operator_raises(case: Case) -> bool:
    return isinstance(case.theirs, ValueError | IndexError)


def _known_properties_only(case: Case) -> bool:
    """Explained if both answers agree for only the properties that Nova knows."""
    if case.spec.image is None or isinstance(case.theirs, Exception):
        return False
    return bool(case.rule.passes(case.hosts, _of_known_properties(case.spec))[case.row]) == case.theirs


def _of_known_properties(spec: RequestSpec) -> RequestSpec:
    assert spec.image is not None
    known = {name: value for name, value in spec.image.properties.items() if name in ImageMetaProps.fields}
    return replace(spec, image=replace(spec.image, properties=known))


def _bits_of_text(case: Case) -> bool:
    return isinstance(case.theirs, AttributeError) and "hw_maxphysaddr_bits" in (
        case.spec.image.properties if case.spec.image else {}
    )


def _query_raises(case: Case) -> bool:
    return isinstance(case.theirs, KeyError | IndexError | TypeError | ValueError | AttributeError)


def _no_network(case: Case) -> bool:
    return isinstance(case.theirs, Exception) and case.ours is False


class _HonestNot(JsonFilter):
    """Nova's filter with a ``not`` that returns a boolean; Nova's returns a list, which counts as true."""

    commands: Mapping[str, Any] = {**JsonFilter.commands, "not": lambda _, cooked: any(not each for each in cooked)}


def _asked_again(case: Case, *, rule: Any, numbers: bool = False, address: bool = False) -> bool:
    """Return whether this filter gives Kilonova's answer.

    ``numbers``: the io_workload in the stats is a number; Nova has text.
    ``address``: the address of the host is text; Nova has an object.
    """
    state = copy(case.state)
    if numbers:
        state.stats = {**state.stats, "io_workload": state.num_io_ops}
    if address:
        state.host_ip = str(state.host_ip)
    return nova_world.passes(rule, state, nova_world.request_spec(case.spec)) == case.ours


def _nested_not(case: Case) -> bool:
    return _asked_again(case, rule=_HonestNot())


def _number_as_number(case: Case) -> bool:
    return _asked_again(case, rule=JsonFilter(), numbers=True)


def _address_as_text(case: Case) -> bool:
    return _asked_again(case, rule=case.nova, address=True)


def _several_of_these(case: Case) -> bool:
    return any(
        _asked_again(case, rule=rule, numbers=numbers, address=address)
        for rule in (JsonFilter(), _HonestNot())
        for numbers in (False, True)
        for address in (False, True)
    )


def _weigh_the_same(case: Case, *, known_properties: bool, finite: bool) -> bool:
    """Return whether the shares are equal.

    ``known_properties``: Kilonova sees only the image properties that Nova knows.
    ``finite``: in Nova, multipliers that are not finite numbers are unreadable.
    """
    ours, theirs = case.ours, case.theirs
    if known_properties and case.spec.image is not None:
        (share,) = shares([case.rule], case.hosts, _of_known_properties(case.spec), ALL_ROWS, len(case.hosts))
        ours = 0.0 if share.values is None else share.values[case.row]
    if finite:
        states = [_with_finite_multipliers(state) for state in case.states]
        found = nova_world.shares(case.nova, states, nova_world.request_spec(case.spec))
        theirs = found if isinstance(found, Exception) else found[case.row]
    if isinstance(theirs, Exception) or isinstance(ours, Exception):
        return isinstance(theirs, exception.ComputeHostMetricNotFound) and isinstance(ours, RuleFailed)
    return math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-9)


def _with_finite_multipliers(state: Any) -> Any:
    state = copy(state)
    state.aggregates = [nova_world.with_metadata(each, _finite_only(each.metadata)) for each in state.aggregates]
    return state


def _finite_only(metadata: Mapping[str, str]) -> dict[str, str]:
    return {
        key: "unreadable" if key.endswith("_weight_multiplier") and _is_not_finite(value) else value
        for key, value in metadata.items()
    }


def _is_not_finite(text: str) -> bool:
    try:
        return not math.isfinite(float(text))
    except ValueError:
        return False


def _known_properties_weigh_the_same(case: Case) -> bool:
    return _weigh_the_same(case, known_properties=True, finite=False)


def _finite_multipliers_weigh_the_same(case: Case) -> bool:
    return _weigh_the_same(case, known_properties=False, finite=True)


def _both_weigh_the_same(case: Case) -> bool:
    return _weigh_the_same(case, known_properties=True, finite=True)


def _both_fail(case: Case) -> bool:
    return isinstance(case.theirs, exception.ComputeHostMetricNotFound) and isinstance(case.ours, RuleFailed)


@dataclass(frozen=True)
class _Search:
    """Host state, and the topology and PCI requests that Nova fits on it."""

    state: Any
    numa: Any
    pci: list[Any]

    @classmethod
    def of(cls, case: Case) -> "_Search":
        asked = device_differences.request_of(case.spec)
        return cls(case.state, asked.numa_topology, asked.pci_requests.requests)


def _fits_cell_by_cell(case: Case) -> bool:
    at = _Search.of(case)
    return device_differences.fits_cell_by_cell(at.state, at.numa, at.pci, at.state.pci_stats) is case.ours


def _no_policy_for_no_cpus(case: Case) -> bool:
    at = _Search.of(case)
    wanted = device_differences.without_idle_policies(at.numa)
    return device_differences.fits_cell_by_cell(at.state, wanted, at.pci, at.state.pci_stats) is case.ours


def _near_but_not_to_be_had(case: Case) -> bool:
    at = _Search.of(case)
    pools = device_differences.usable(at.state.pci_stats, at.pci)
    return device_differences.fits_cell_by_cell(at.state, at.numa, at.pci, pools) is case.ours


def _fits_in_another_order(case: Case) -> bool:
    at = _Search.of(case)
    return case.ours is True and device_differences.fits_somehow(at.state, at.numa, at.pci)


def _served_in_another_order(case: Case) -> bool:
    at = _Search.of(case)
    return case.ours is True and device_differences.supported_somehow(at.state.pci_stats, at.pci)


def _cannot_be_claimed(case: Case) -> bool:
    at = _Search.of(case)
    fitted = device_differences.fits(at.state, at.numa, at.pci, at.state.pci_stats)
    return case.ours is False and fitted is not None and device_differences.claim_fails(at.state, fitted)


def _page_below_a_kib(reading: Reading) -> bool:
    sizes = {reading.spec.flavor.extra_specs.get("hw:mem_page_size"), _image_property(reading, "hw_mem_page_size")}
    return reading.ours == REFUSED and bool(sizes & {"0", "100B"})


def _page_with_half_a_unit(reading: Reading) -> bool:
    """Explained if the answers agree for complete units, such as 2MB instead of 2M."""
    whole = {"2M": "2MB", "4kB": "4KB"}
    flavor, image = reading.spec.flavor, reading.spec.image
    assert image is not None
    specs = {key: whole.get(value, value) for key, value in flavor.extra_specs.items()}
    properties = {key: whole.get(value, value) for key, value in image.properties.items()}
    again = replace(
        reading.spec, flavor=replace(flavor, extra_specs=specs), image=replace(image, properties=properties)
    )
    return reading.theirs == REFUSED and theirs_of(CELLS, again) == reading.ours


def _no_cells_of_the_image(reading: Reading) -> bool:
    """Explained if the answers agree without the image's hw_numa_nodes, which is 0."""
    image = reading.spec.image
    if image is None or image.properties.get("hw_numa_nodes") != "0":
        return False
    properties = {key: value for key, value in image.properties.items() if key != "hw_numa_nodes"}
    again = replace(reading.spec, image=replace(image, properties=properties))
    return reading.ours == REFUSED and ours_of(CELLS, again) == reading.theirs


def _image_refused(reading: Reading) -> bool:
    try:
        nova_world.image(reading.spec.image)
    except nova_world.Refused:
        return reading.theirs == REFUSED
    return False


def _count_below_one(reading: Reading) -> bool:
    asked = reading.spec.flavor.extra_specs.get("pci_passthrough:alias")
    return reading.ours == REFUSED and asked in {"gpu:0", "gpu:-1"}


def _empty_alias(reading: Reading) -> bool:
    return reading.ours == () and reading.spec.flavor.extra_specs.get("pci_passthrough:alias") == ""


def _traits_of_no_group(reading: Reading) -> bool:
    """Explained if moving the traits of groups without resources to the unsuffixed group makes the queries equal."""
    if not isinstance(reading.theirs, tuple):
        return False
    groups, *others, policy, again = reading.theirs
    joined = _joined(groups)
    policy = policy if len(joined) > 2 else None
    return reading.ours == (joined, *others, policy, None if again is None else _joined(again))


def _joined(groups: frozenset[Any]) -> frozenset[Any]:
    alone = [each for each in groups if each[0] and not each[1]]
    plain = next((each for each in groups if not each[0]), ("", frozenset(), frozenset(), frozenset()))
    required = plain[2].union(*(each[2] for each in alone))
    forbidden = plain[3].union(*(each[3] for each in alone))
    return (groups - {plain, *alone}) | {(*plain[:2], required, forbidden)}


def _tenant_named_elsewhere(reading: Reading) -> bool:
    """Explained if the queries are equal without the aggregates that name the project only under another key."""
    project = reading.spec.project_id
    aggregates = tuple(
        each
        for each in reading.aggregates
        if project not in each.metadata.values()
        or any(key.startswith("filter_tenant_id") and value == project for key, value in each.metadata.items())
    )
    return theirs_of(PLACEMENT, reading.spec, aggregates) == reading.ours


def _image_property(reading: Reading, name: str) -> str | None:
    return reading.spec.image.properties.get(name) if reading.spec.image is not None else None


_OPERANDS = Difference("an unreadable operand matches nothing; Nova fails the request", _operator_raises)
_METRIC = Difference("both fail the request for a missing metric", _both_fail)

_EVERY_PROPERTY_WEIGHS = Difference(
    "all image properties are compared; Nova only the ones it knows", _known_properties_weigh_the_same
)

_FINITE = Difference(
    "multipliers of aggregates that are not finite are invalid; Nova multiplies with them",
    _finite_multipliers_weigh_the_same,
)
_WITH_MULTIPLIERS = (
    *("RAM", "CPU", "Disk", "IoOps", "NumInstances", "HypervisorVersion", "PCI", "BuildFailure", "CrossCell"),
    *("ServerGroupSoftAffinity", "ServerGroupSoftAntiAffinity"),
)

DIFFERENCES: Mapping[str, tuple[Difference, ...]] = {
    "AggregateInstanceExtraSpecsFilter": (_OPERANDS,),
    "ComputeCapabilitiesFilter": (
        _OPERANDS,
        Difference("an address is text without parts; in Nova it is an object", _address_as_text),
    ),
    "AggregateImagePropertiesIsolation": (
        Difference("all image properties are compared; Nova only the ones it knows", _known_properties_only),
    ),
    "ImagePropertiesFilter": (
        Difference("hw_maxphysaddr_bits is compared; Nova fails to parse its own cpu_info", _bits_of_text),
    ),
    "SimpleCIDRAffinityFilter": (
        Difference("hints without a valid network match no host; Nova fails the request", _no_network),
    ),
    "JsonFilter": (
        Difference("an invalid or unordered comparison is false; Nova fails the request", _query_raises),
        Difference("a nested not negates its operand; in Nova it is always true", _nested_not),
        Difference("counts in the stats are numbers; in Nova they are text", _number_as_number),
        Difference("the address of a host is text; in Nova it is an object that equals no text", _address_as_text),
        Difference("several of these differences", _several_of_these),
    ),
    "NUMATopologyFilter": (
        Difference("each cell is fitted as requested; Nova's search modifies the cells it tries", _fits_cell_by_cell),
        Difference("the thread policy is ignored in a cell without dedicated CPUs", _no_policy_for_no_cpus),
        Difference("devices that cannot be assigned do not count as near; in Nova they do", _near_but_not_to_be_had),
        Difference(
            "devices are assigned so that all requests are served; Nova assigns them in order", _fits_in_another_order
        ),
        Difference(
            "an isolated emulator needs a whole core; Nova's filter passes, its claim fails", _cannot_be_claimed
        ),
    ),
    "PciPassthroughFilter": (
        Difference(
            "devices are assigned so that all requests are served; Nova assigns them in order", _served_in_another_order
        ),
    ),
    **{f"{name}Weigher": (_FINITE,) for name in _WITH_MULTIPLIERS},
    "MetricsWeigher": (_METRIC, _FINITE),
    "ImagePropertiesWeigher": (
        _EVERY_PROPERTY_WEIGHS,
        _FINITE,
        Difference("both unknown image properties and multipliers that are not finite", _both_weigh_the_same),
    ),
}

OF_READINGS: Mapping[str, tuple[ReadingDifference, ...]] = {
    CELLS: (
        ReadingDifference("a page size below 1 KiB is rejected; Nova ignores it", _page_below_a_kib),
        ReadingDifference(
            "2M and 4kB are valid sizes; Nova accepts them in flavors and rejects the servers", _page_with_half_a_unit
        ),
        ReadingDifference(
            "hw_numa_nodes=0 is rejected; Nova ignores it if the flavor has a value", _no_cells_of_the_image
        ),
        ReadingDifference("unused image properties are not validated; Nova rejects the image", _image_refused),
    ),
    DEVICES: (
        ReadingDifference("counts below one device are rejected; Nova accepts them", _count_below_one),
        ReadingDifference("an empty alias requests no device; Nova raises ValueError", _empty_alias),
    ),
    PLACEMENT: (
        ReadingDifference(
            "traits of a group without resources join the unsuffixed group; Placement rejects Nova's query",
            _traits_of_no_group,
        ),
        ReadingDifference(
            "only filter_tenant_id keys name an aggregate's projects; Nova accepts any key",
            _tenant_named_elsewhere,
        ),
    ),
}
