# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.db import traits
from kilonova.db.database import Database
from kilonova.errors import InvalidRequest, NotFound


def test_a_trait_is_created_once_and_its_prefix_is_compared_in_case(database: Database) -> None:
    created = [database.write(lambda tx: traits.ensure(tx, "CUSTOM_A"))[0] for _ in range(2)]
    assert created == [True, False]
    with database.read() as connection:
        assert [each.name for each in traits.list_matching(connection, prefix="CUSTOM_")] == ["CUSTOM_A"]
        assert traits.list_matching(connection, prefix="custom_") == ()
        assert traits.list_matching(connection, names=["CUSTOM_A", "PONY"], associated=True) == ()


def test_missing_traits_are_all_named(database: Database) -> None:
    with database.read() as connection:
        assert set(traits.ids(connection, ["HW_CPU_X86_AVX", "HW_CPU_X86_AVX"])) == {"HW_CPU_X86_AVX"}
        with pytest.raises(NotFound, match="CUSTOM_X, PONY"):
            traits.ids(connection, ["PONY", "HW_CPU_X86_AVX", "CUSTOM_X"])


def test_a_standard_trait_is_not_deleted(database: Database) -> None:
    with pytest.raises(InvalidRequest):
        database.write(lambda tx: traits.delete(tx, "HW_CPU_X86_AVX"))
    with pytest.raises(NotFound):
        database.write(lambda tx: traits.delete(tx, "CUSTOM_A"))
