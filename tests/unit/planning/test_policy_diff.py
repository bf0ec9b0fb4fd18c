# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.planning.hindrance import DEVICES, DEVICES_REASON
from kilonova.planning.policy_diff import Cause, Decided, DecidedRequest, Effect, Place, Verdict, Weights, difference
from kilonova.scheduler.decision import SURVIVED
from kilonova.scheduler.engine.batch import EARLIER

N1, N2, N3 = ("n1", "n1"), ("n2", "n2"), ("n3", "n3")
ROWS = {N1: 0, N2: 1, N3: 2}
RULES = (("Zone", "in another zone"), ("Ram", "too little memory"))
ON = SURVIVED


def one(chosen: Place | None, *removed_by: int, weights: Weights | None = None) -> Decided:
    return Decided(chosen, RULES, removed_by, weights or {})


def request(*decisions: Decided) -> DecidedRequest:
    return DecidedRequest(dict(enumerate(decisions)), ROWS)


ZONE, RAM = RULES
CASES = {
    "the old host is rejected": (
        request(one(N1, ON, ON, ON)),
        request(one(N2, 1, ON, ON)),
        (Verdict.ELSEWHERE, N1, N2, Cause(*RAM, Effect.REJECTS)),
    ),
    "the new host is no longer rejected": (
        request(one(N1, ON, 0, ON)),
        request(one(N2, ON, ON, ON)),
        (Verdict.ELSEWHERE, N1, N2, Cause(*ZONE, Effect.ALLOWS)),
    ),
    "a weigher prefers the new host": (
        request(one(N1, ON, ON, ON, weights={N1: {"A": 1.0, "B": 0.5}, N2: {"A": 0.5, "B": 0.5}})),
        request(one(N2, ON, ON, ON, weights={N1: {"A": -1.0, "B": 0.5}, N2: {"A": -0.5, "B": 0.5}})),
        (Verdict.ELSEWHERE, N1, N2, Cause("A", "rates the hosts otherwise", Effect.PREFERS)),
    ),
    "nothing prefers the new host": (
        request(one(N1, ON, ON, ON)),
        request(one(N2, ON, ON, ON)),
        (Verdict.ELSEWHERE, N1, N2, Cause("order", "hosts with the same score are in another order", Effect.PREFERS)),
    ),
    "no host is left": (
        request(one(N1, ON, 0, 0)),
        request(one(None, 1, 0, 0)),
        (Verdict.FAILS, N1, None, Cause(*RAM, Effect.REJECTS)),
    ),
    "no host can give the devices": (
        request(one(N1, ON, ON, ON)),
        request(one(None, ON, ON, ON)),
        (Verdict.FAILS, N1, None, Cause(DEVICES, DEVICES_REASON, Effect.REJECTS)),
    ),
    "a host is left now": (
        request(one(None, 0, 0, 1)),
        request(one(N3, 0, 0, ON)),
        (Verdict.FITS, None, N3, Cause(*RAM, Effect.ALLOWS)),
    ),
    "a rule fails": (
        request(one(N1, ON, ON, ON)),
        DecidedRequest({}, {}, Cause("Own", "it failed", Effect.FAILS)),
        (Verdict.FAILS, N1, None, Cause("Own", "it failed", Effect.FAILS)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_rule_that_makes_the_difference(name: str) -> None:
    before, after, told = CASES[name]
    found = difference(before, after, 0)
    assert found is not None
    assert (found.verdict, found.before, found.after, found.cause) == told


def test_equal_hosts_and_equal_refusals_are_no_difference() -> None:
    assert difference(request(one(N1, ON, ON, ON)), request(one(N1, ON, 0, 0)), 0) is None
    assert difference(request(one(None, 0, 0, 0)), request(one(None, 1, 1, 1)), 0) is None


def test_all_servers_of_a_request_fail_with_one() -> None:
    before = request(one(N1, ON, ON, ON), one(N2, ON, ON, ON))
    after = request(one(N1, ON, ON, 0), one(None, 0, 1, 0))
    for index, place in ((0, N1), (1, N2)):
        found = difference(before, after, index)
        assert found is not None
        assert (found.verdict, found.before, found.cause) == (Verdict.FAILS, place, Cause(*RAM, Effect.REJECTS))


def test_a_server_follows_the_earlier_ones_of_its_request() -> None:
    before = request(one(N1, ON, ON, ON), one(N2, ON, ON, ON))
    after = request(one(N2, ON, ON, ON), one(N1, ON, ON, ON))
    found = difference(before, after, 1)
    assert found is not None
    assert found.cause.effect is Effect.FOLLOWS


def test_a_host_that_an_earlier_server_could_not_use_has_that_servers_rule() -> None:
    rules = ((EARLIER, "rejected for an earlier server"), *RULES)
    later = Decided(None, rules, (0, 0, 0), {})
    before = request(one(N1, ON, ON, ON), one(N2, ON, ON, ON))
    found = difference(before, request(one(N1, ON, 0, 0), later), 1)
    assert found is not None
    assert found.cause == Cause(*ZONE, Effect.REJECTS)
