# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest
from rich.console import Console

from kilonova.cli.cloud.usage import Usage, screen

HEALTH: dict[str, Any] = {
    "workflows": {"unfinished": 3, "stuck": 1, "awaiting_hosts": []},
    "checks": [{"name": "database", "healthy": True, "problem": None}],
    "read_only": False,
}


def answer(*hosts: tuple[str, int, int], whole: bool = True, version: str = "aa-1", **changed: Any) -> dict[str, Any]:
    """Return an answer for hosts given as (name, used VCPU, used MEMORY_MB), of 10 VCPU and 100 MEMORY_MB each."""
    count = len(hosts)
    return {
        "seq": 7,
        "version": version,
        "whole": whole,
        "hosts": [name for name, _, _ in hosts],
        "nodes": [name for name, _, _ in hosts],
        "zones": ["nova"] * count,
        "up": [True] * count,
        "disabled": [False] * count,
        "servers": [used for _, used, _ in hosts],
        "resources": {
            "MEMORY_MB": {"capacity": [100] * count, "used": [memory for _, _, memory in hosts]},
            "VCPU": {"capacity": [10] * count, "used": [used for _, used, _ in hosts]},
        },
        **changed,
    }


@pytest.mark.parametrize(("by", "first"), [(None, "b"), ("VCPU", "a"), ("MEMORY_MB", "b"), ("servers", "a")])
def test_the_host_with_the_most_is_first(by: str | None, first: str) -> None:
    usage = Usage(answer(("c", 0, 0), ("a", 8, 10), ("b", 1, 90)))
    assert usage.orders == ("VCPU", "MEMORY_MB", "servers")
    assert usage.sorted_by(by)[0].host == first


def test_changes_replace_rows() -> None:
    usage = Usage(answer(("a", 8, 10), ("b", 1, 90)))
    usage.update(answer(("a", 9, 10), whole=False, version="aa-2"))
    assert usage.version == "aa-2"
    assert usage.total("VCPU") == (10, 20)
    usage.update(answer(("c", 1, 1)))
    assert [row.host for row in usage.sorted_by(None)] == ["c"]


def test_the_screen_has_totals_and_hosts() -> None:
    console = Console(width=100)
    with console.capture() as capture:
        console.print(screen(Usage(answer(("a", 8, 10), ("b", 1, 96), up=[True, False])), HEALTH, by=None, rows=1))
    shown = capture.get()
    assert "2 hosts · 1 up · 1 down · 9 servers · change 7" in shown
    assert "45%" in shown
    assert "9 of 20" in shown
    assert "3 workflows, 1 stuck" in shown
    assert "96%" in shown
    assert "and 1 host more" in shown


def test_a_cloud_without_hosts_has_a_screen() -> None:
    console = Console(width=100)
    with console.capture() as capture:
        console.print(screen(Usage(answer(resources={})), HEALTH, by=None, rows=5))
    assert "0 hosts" in capture.get()
