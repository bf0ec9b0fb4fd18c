# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from kilonova.cli.wiring.dotted_paths import at_path, driver_class, made
from kilonova.errors import ConfigurationError, NotFound

GROUP = "kilonova.tests.none"


@pytest.mark.parametrize("path", ["bare", "kilonova.nothing.Here", "kilonova.errors.Nothing", ".errors", ""])
def test_a_path_that_leads_nowhere_says_why_in_one_line(path: str) -> None:
    with pytest.raises(ValueError) as caught:
        at_path(path)
    assert str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_module_that_fails_when_it_is_imported_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_module.py").write_text("raise SystemError('no licence')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(
        ConfigurationError, match=r"\[x\] driver takes a, b, .*'broken_module\.Driver'.* \(no licence\)"
    ):
        driver_class("[x] driver", "broken_module.Driver", GROUP, ("a", "b"), ())


def test_a_driver_is_a_class_with_all_methods() -> None:
    assert driver_class("[x] driver", "kilonova.errors.NotFound", GROUP, (), ("with_traceback",)) is NotFound
    with pytest.raises(ConfigurationError, match=r"'kilonova\.errors\.full_disk' is "):
        driver_class("[x] driver", "kilonova.errors.full_disk", GROUP, (), ())
    with pytest.raises(ConfigurationError, match="has no fly, swim"):
        driver_class("[x] driver", "kilonova.errors.NotFound", GROUP, (), ("with_traceback", "fly", "swim"))


def test_a_driver_that_cannot_be_made_names_its_option() -> None:
    class Driver:
        def __init__(self, error: Exception) -> None:
            raise error

    with pytest.raises(ConfigurationError, match=r"\[x\] driver: Driver .*\(ZeroDivisionError: why\)"):
        made("[x] driver", Driver, ZeroDivisionError("why"))
    with pytest.raises(ConfigurationError, match=r"^Set the option z"):
        made("[x] driver", Driver, ConfigurationError("Set the option z."))
