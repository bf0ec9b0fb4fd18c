# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.planning.forecast.durations import seconds


@pytest.mark.parametrize(
    ("text", "wanted"), [("0s", 0), ("1.5m", 90), ("2h", 7200), ("1d", 86400), ("1w", 604800), ("1y", 31536000)]
)
def test_durations_have_units(text: str, wanted: float) -> None:
    assert seconds(text) == wanted


@pytest.mark.parametrize("text", ["", "5", "5 d", "-5d", "5dd", "nan", "1e3s", "d", "9" * 10 + "s", "5d\n"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration such as 12h"):
        seconds(text)
