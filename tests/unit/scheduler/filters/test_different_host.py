# SPDX-License-Identifier: Apache-2.0
import pytest
from tests.unit.scheduler.small_cloud import host, request, table

from kilonova.scheduler.filters import DifferentHostFilter


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        ((), [True, True]),
        (("",), [True, True]),
        (("i1",), [False, True]),
        (("i1", "i2"), [False, False]),
        (("unknown",), [True, True]),
        (("unknown", "i2"), [True, False]),
    ],
)
def test_the_hosts_of_the_hinted_servers_are_left_out(hint: tuple[str, ...], expected: list[bool]) -> None:
    hosts = table(host("a", instances=("i1",)), host("b", instances=("i2",)))
    assert DifferentHostFilter().passes(hosts, request(hints={"different_host": hint})).tolist() == expected
