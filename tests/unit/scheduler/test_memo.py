# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from kilonova.scheduler.memo import Memo


def test_the_memo_computes_once_keeps_arrays_safe_and_forgets_the_oldest() -> None:
    memo = Memo()
    calls: list[int] = []

    def compute() -> np.ndarray:
        calls.append(1)
        return np.zeros(2)

    assert memo.get("a", compute) is memo.get("a", compute)
    assert calls == [1]
    with pytest.raises(ValueError, match="read-only"):
        memo.get("a", compute)[0] = 1
    for number in range(256):
        memo.get(number, lambda: None)
    memo.get("a", compute)
    assert calls == [1, 1]
