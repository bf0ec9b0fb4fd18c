# SPDX-License-Identifier: Apache-2.0
import io
from typing import Any

import pytest
from rich.console import Console

from kilonova.cli.cloud.printing import counted, host_text, hosts_table, ranking_table, removed_text, unread_lines


def printed(what: Any) -> str:
    text = io.StringIO()
    Console(file=text, width=100).print(what)
    return text.getvalue()


def test_a_hypervisor_is_named_only_where_it_differs_from_its_host() -> None:
    assert host_text({"host": "a", "node": "a"}) == "a"
    assert host_text({"host": "a", "node": "a.example"}) == "a (a.example)"
    assert [counted(number, "host") for number in (0, 1, 2)] == ["0 hosts", "1 host", "2 hosts"]


def test_a_removal_names_its_hosts_where_they_are_known() -> None:
    step: dict[str, Any] = {"hosts_in": 3, "hosts_out": 2, "reason": "too full"}
    assert removed_text(step).plain == "1 host, too full"
    assert removed_text({**step, "removed": [{"host": "a", "node": "b"}]}).plain == "1 host, too full: a (b)"


def test_each_unread_thing_is_printed_once() -> None:
    answer = {"unread": [{"text": "hint a"}, {"text": "hint b"}], "may_read_anything": ["Mine"]}
    other = {"unread": [{"text": "hint a"}], "may_read_anything": ["Mine", "Yours"]}
    lines = [line.plain for line in unread_lines(answer, other)]
    assert lines[:2] == ["Not read: hint a.", "Not read: hint b."]
    assert lines[2].endswith(": Mine, Yours may read anything.")
    assert len(lines) == 3
    assert unread_lines({"unread": [], "may_read_anything": []}) == []


@pytest.mark.parametrize(("weights", "shown"), [({"Ram": 1.5, "Disk": 0.0}, "Ram +1.5"), ({"Ram": 0.0}, "none")])
def test_weighers_without_weight_are_not_shown(weights: dict[str, float], shown: str) -> None:
    text = printed(ranking_table([{"host": "a", "node": "a", "score": 1.5, "weights": weights}], "a"))
    assert shown in text
    assert "Disk" not in text
    assert "→" in text


def test_brackets_in_reasons_are_no_markup() -> None:
    hosts = [
        {"host": "a", "node": "a", "reasons": [{"rule": "R", "reason": "[red]full[/red]"}]},
        {"host": "b", "node": "b", "reasons": []},
    ]
    text = printed(hosts_table(hosts))
    assert "R: [red]full[/red]" in text
    assert "fits" in text
