# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.db import flavors
from kilonova.db.database import Database
from kilonova.errors import Conflict
from kilonova.model.flavor import Flavor

FLAVOR = Flavor("1", "m1.tiny", vcpus=1, memory_mib=512, root_gib=1, extra_specs={"ssd": "true"})


def test_a_flavor_that_exists_is_not_created_again(database: Database) -> None:
    database.write(lambda tx: flavors.create(tx, FLAVOR))
    with pytest.raises(Conflict):
        database.write(lambda tx: flavors.create(tx, FLAVOR))
    with database.read() as connection:
        assert flavors.get(connection, "1").extra_specs == {}, "extra specs are created by a request of their own"
