# SPDX-License-Identifier: Apache-2.0
"""Vectors of AggregateInstanceExtraSpecsFilter that were executed against Nova's class."""

from collections.abc import Mapping

import pytest
from tests.unit.scheduler.small_cloud import one_host_in, request

from kilonova.scheduler.filters import AggregateInstanceExtraSpecsFilter

A = "aggregate_instance_extra_specs:"
Metadata = Mapping[str, str]


@pytest.mark.parametrize(
    ("extra_specs", "aggregates", "expected"),
    [
        ({}, [], True),
        ({f"{A}ssd": "true"}, [{"ssd": "true"}], True),
        ({f"{A}ssd": "true"}, [{}], False),
        ({f"{A}ssd": "true"}, [], False),
        ({"ssd": "true"}, [{"ssd": "true"}], True),
        ({"ssd": "true"}, [{"x": "y"}], False),
        ({"hw:cpu_policy": "dedicated"}, [{"ssd": "true"}], True),
        ({"k": "b"}, [{"k": "a,b"}], True),
        ({"k": "<or> b <or> c"}, [{"k": "a"}, {"k": "b"}], True),
        ({"k": "<all-in> a b"}, [{"k": "a,b"}], False),
        ({"k": "<all-in> a b"}, [{"k": "a b"}], True),
        ({"n": ">= 8"}, [{"n": "5"}, {"n": "9"}], True),
        ({f"{A}a:b": "1"}, [{"a:b": "1"}], True),
        ({"k": "True"}, [{"k": "true"}], False),
        ({"k": ""}, [{"k": ""}], True),
        ({"a": "1", "b": "2"}, [{"a": "1"}], False),
        ({"a": "1", "b": "2"}, [{"a": "1"}, {"b": "2"}], True),
    ],
)
def test_each_extra_spec_must_match_an_aggregate_of_the_host(
    extra_specs: Metadata, aggregates: list[Metadata], expected: bool
) -> None:
    hosts = one_host_in(*aggregates)
    rule = AggregateInstanceExtraSpecsFilter()
    assert rule.passes(hosts, request(extra_specs)).tolist() == [expected]
    assert rule.passes(hosts, request(extra_specs)).tolist() == [expected], "the cached answer differs"
