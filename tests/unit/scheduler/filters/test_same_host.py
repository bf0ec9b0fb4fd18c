# SPDX-License-Identifier: Apache-2.0
import pytest
from tests.unit.scheduler.small_cloud import host, request, table

from kilonova.scheduler.filters import SameHostFilter


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        ((), [True, True]),
        (("",), [True, True]),
        (("i1",), [True, False]),
        (("i1", "i2"), [True, True]),
        (("unknown",), [False, False]),
        (("unknown", "i2"), [False, True]),
    ],
)
def test_only_the_hosts_of_the_hinted_servers_pass(hint: tuple[str, ...], expected: list[bool]) -> None:
    hosts = table(host("a", instances=("i1",)), host("b", instances=("i2",)))
    assert SameHostFilter().passes(hosts, request(hints={"same_host": hint})).tolist() == expected
