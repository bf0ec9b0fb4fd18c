# SPDX-License-Identifier: Apache-2.0
from kilonova.dashboard.web.pictures import funnel


def step(hosts_in: int, hosts_out: int) -> dict[str, object]:
    return {"rule": "r", "reason": "", "hosts_in": hosts_in, "hosts_out": hosts_out}


def test_one_host_of_thousands_stays_visible() -> None:
    first, second = funnel([step(10_000, 1), step(1, 0)])
    assert (first.lost, first.most) == (9_999, True)
    assert (second.lost, second.most) == (1, False)
    assert "121.5 40" in first.shape
    assert first.shape.startswith("M0.0 0H240.0")


def test_no_steps_have_no_pieces() -> None:
    assert funnel([]) == []


def test_a_decision_without_hosts_has_a_picture() -> None:
    (piece,) = funnel([step(0, 0)])
    assert (piece.lost, piece.most) == (0, False)
