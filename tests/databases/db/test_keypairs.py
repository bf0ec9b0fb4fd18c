# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.db import keypairs
from kilonova.db.database import Database
from kilonova.errors import Conflict
from kilonova.model.keypair import Keypair


def test_a_key_pair_that_exists_is_not_created_again(database: Database) -> None:
    pair = Keypair(0, "u", "key", "ssh", "00:11", "ssh-rsa AAAA")
    database.write(lambda tx: keypairs.create(tx, pair, limit=-1))
    with pytest.raises(Conflict):
        database.write(lambda tx: keypairs.create(tx, pair, limit=-1))
    with database.read() as connection:
        assert keypairs.get(connection, "u", "key").public_key == pair.public_key
