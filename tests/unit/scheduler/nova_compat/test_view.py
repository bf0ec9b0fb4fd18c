# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.scheduler.nova_compat.view import View


def test_a_view_lacks_what_it_lacks() -> None:
    with pytest.raises(AttributeError, match="b"):
        _ = View(a=1).b
