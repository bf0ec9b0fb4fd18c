# SPDX-License-Identifier: Apache-2.0
"""Where Kilonova answers otherwise than Nova on purpose. Each has a line in docs/differences-from-nova.md.

A difference says of one answer whether it explains it; where it can, by asking Nova again about the same case without
what makes the difference.
"""

import math
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from nova import exception
from nova.objects import ImageMetaProps
from nova.scheduler.filters.json_filter import JsonFilter

from kilonova.errors import RuleFailed
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.host_table import ALL_ROWS, HostTable
from kilonova.scheduler.ranking import shares
from scheduler_peer import nova_world


@dataclass(frozen=True)
class Case:
    """One rule, one host (a whole request for weighers), and the two answers."""

    rule: Any
    hosts: HostTable
    spec: RequestSpec
    row: int
    state: Any
    ours: Any
    theirs: Any


@dataclass(frozen=True)
class Difference:
    why: str
    explains: Callable[[Case], bool]


def _operator_raises(case: Case) -> bool:
    return isinstance(case.theirs, ValueError | IndexError)


def _known_properties_only(case: Case) -> bool:
    """With the properties alone that Nova knows, our answer is Nova's."""
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


class _HonestNot(JsonFilter):
    """Nova's filter with a ``not`` that answers true or false instead of a list, which counts as true."""

    commands: Mapping[str, Any] = {**JsonFilter.commands, "not": lambda _, cooked: any(not each for each in cooked)}


def _asked_again(case: Case, *, rule: Any, numbers: bool) -> bool:
    """Tell whether our answer is what this filter says, with counts among the stats as numbers or as Nova has them."""
    state = copy(case.state)
    if numbers:
        state.stats = {**state.stats, "io_workload": state.num_io_ops}
    return nova_world.passes(rule, state, nova_world.request_spec(case.spec)) == case.ours


def _nested_not(case: Case) -> bool:
    return _asked_again(case, rule=_HonestNot(), numbers=False)


def _number_as_number(case: Case) -> bool:
    return _asked_again(case, rule=JsonFilter(), numbers=True)


def _both_of_these(case: Case) -> bool:
    return _asked_again(case, rule=_HonestNot(), numbers=True)


def _known_properties_weigh_the_same(case: Case) -> bool:
    if isinstance(case.theirs, Exception) or case.spec.image is None:
        return False
    (share,) = shares([case.rule], case.hosts, _of_known_properties(case.spec), ALL_ROWS, len(case.hosts))
    return math.isclose(0.0 if share.values is None else share.values[case.row], case.theirs, abs_tol=1e-9)


def _both_fail(case: Case) -> bool:
    return isinstance(case.theirs, exception.ComputeHostMetricNotFound) and isinstance(case.ours, RuleFailed)


_OPERANDS = Difference("an operand that cannot be read matches nothing; Nova fails the request", _operator_raises)
_METRIC = Difference("both fail the request for a missing metric", _both_fail)

_EVERY_PROPERTY_WEIGHS = Difference(
    "every image property is seen; Nova sees the ones it knows", _known_properties_weigh_the_same
)

DIFFERENCES: Mapping[str, tuple[Difference, ...]] = {
    "AggregateInstanceExtraSpecsFilter": (_OPERANDS,),
    "ComputeCapabilitiesFilter": (_OPERANDS,),
    "AggregateImagePropertiesIsolation": (
        Difference("every image property is seen; Nova sees the ones it knows", _known_properties_only),
    ),
    "ImagePropertiesFilter": (
        Difference("hw_maxphysaddr_bits is compared; Nova breaks on its own cpu_info text", _bits_of_text),
    ),
    "JsonFilter": (
        Difference("what makes no sense or cannot be ordered is false; Nova fails the request", _query_raises),
        Difference("a nested not is what it negates; Nova takes it for true", _nested_not),
        Difference("counts among the stats are numbers; Nova has text there", _number_as_number),
        Difference("both of these", _both_of_these),
    ),
    "MetricsWeigher": (_METRIC,),
    "ImagePropertiesWeigher": (_EVERY_PROPERTY_WEIGHS,),
}
