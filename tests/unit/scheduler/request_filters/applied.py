# SPDX-License-Identifier: Apache-2.0
"""Request filters applied to one request, for their tests."""

from kilonova.model.aggregate import Aggregate
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.aggregate_index import AggregateIndex
from kilonova.scheduler.rule import RequestFilter

NO_AGGREGATES = AggregateIndex.of((), ())


def index(*metadata: dict[str, str]) -> AggregateIndex:
    """Return aggregates with the UUIDs u0, u1, …, one for each of ``metadata``."""
    return AggregateIndex.of([Aggregate(n, f"u{n}", f"a{n}", (), each) for n, each in enumerate(metadata)], [])


def required(rule: RequestFilter, spec: RequestSpec) -> set[str]:
    """Apply a rule and return the traits it requires; nothing else may change."""
    after = rule.apply(spec, NO_AGGREGATES)
    assert after == spec.requiring(*after.query.root_required)
    return set(after.query.root_required)
