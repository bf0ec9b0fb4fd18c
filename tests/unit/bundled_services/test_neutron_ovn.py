# SPDX-License-Identifier: Apache-2.0
"""The databases of OVN are repaired if they are not those of Neutron's last start."""

from pathlib import Path

import pytest

from kilonova.bundled_services.neutron_ovn import repair_if_new
from kilonova.errors import Unavailable


def repaired(folder: Path, identity: str, *, is_empty: bool = False) -> bool:
    done: list[Path] = []
    repair_if_new(folder, identity, is_empty=is_empty, repair=done.append)
    assert done in ([], [folder / "neutron.conf"])
    return bool(done)


def test_new_databases_are_repaired_once(tmp_path: Path) -> None:
    assert not repaired(tmp_path, "first", is_empty=True)
    assert not repaired(tmp_path, "first")
    assert repaired(tmp_path, "second")
    assert not repaired(tmp_path, "second")


def test_a_cloud_that_had_no_real_guests_before_is_repaired(tmp_path: Path) -> None:
    assert repaired(tmp_path, "first")


def test_a_repair_that_fails_is_repeated(tmp_path: Path) -> None:
    def fail(_conf: Path) -> None:
        raise Unavailable("no")

    with pytest.raises(Unavailable):
        repair_if_new(tmp_path, "first", is_empty=False, repair=fail)
    assert repaired(tmp_path, "first")
