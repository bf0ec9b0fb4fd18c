# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.scheduler.nova_compat.view import Properties, View


def test_keys_of_a_view_are_its_attributes() -> None:
    view = View(a=1)
    assert (view.a, view["a"], view.obj_attr_is_set("a"), view.obj_attr_is_set("b")) == (1, 1, True, False)
    with pytest.raises(AttributeError, match="b"):
        _ = view.b


def test_a_missing_property_of_an_image_is_none() -> None:
    assert (Properties(os="linux").os, Properties().os) == ("linux", None)
    assert not hasattr(Properties(), "__deepcopy__"), "a copy must find no method"
