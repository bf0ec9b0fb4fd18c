# SPDX-License-Identifier: Apache-2.0
import gc

import pytest

from kilonova.lasting import made_to_last


def test_no_garbage_is_looked_for_while_something_lasting_is_made() -> None:
    frozen = gc.get_freeze_count()
    try:
        with made_to_last():
            assert not gc.isenabled()
        assert gc.isenabled()
        assert gc.get_freeze_count() > frozen
    finally:
        gc.unfreeze()


def test_it_is_looked_for_again_when_making_it_fails() -> None:
    with pytest.raises(ZeroDivisionError), made_to_last():
        raise ZeroDivisionError
    assert gc.isenabled()
