# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.model.cpu_set import cpus_text, parse_cpus


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("", set()), ("3", {3}), ("0-2,7", {0, 1, 2, 7}), (" 0 - 3 , ^2", {0, 1, 3}), ("0-7,^2-5", {0, 1, 6, 7})],
)
def test_lists_of_cpus(text: str, cpus: set[int]) -> None:
    assert parse_cpus(text) == cpus
    assert parse_cpus(cpus_text(cpus)) == cpus


@pytest.mark.parametrize("text", ["a", "1-", "3-1", "-1", "1;2", "99999", "^"])
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_cpus(text)


def test_runs_are_written_short() -> None:
    assert cpus_text({5, 0, 1, 2, 7, 8}) == "0-2,5,7-8"
