# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.console_proxy.limits import ConsoleLimits


def test_one_server_cannot_take_all_consoles() -> None:
    limits = ConsoleLimits(limit=3, of_one=2)
    with limits.take("a") as first, limits.take("a") as second, limits.take("a") as third:
        assert (first, second, third) == (True, True, False)
        assert limits.is_free("b")
        with limits.take("b") as other, limits.take("c") as too_many:
            assert (other, too_many, limits.taken) == (True, False, 3)
    assert limits.taken == 0
    assert not limits._taken, "servers without a console cost no memory"


def test_a_console_that_ends_with_an_error_is_given_back() -> None:
    limits = ConsoleLimits(limit=1, of_one=1)
    with pytest.raises(ZeroDivisionError), limits.take("a"):
        raise ZeroDivisionError
    assert limits.is_free("a")
    with limits.take("a"), limits.take("b") as refused:
        assert not refused
    assert limits.taken == 0, "a refused console gives nothing back"
