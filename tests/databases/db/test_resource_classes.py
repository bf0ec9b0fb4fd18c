# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.db import resource_classes
from kilonova.db.database import Database
from kilonova.errors import Conflict, InvalidRequest, NotFound


def test_a_custom_class_is_renamed_to_a_free_name(database: Database) -> None:
    for name in ("CUSTOM_A", "CUSTOM_B"):
        database.write(lambda tx, name=name: resource_classes.create(tx, name))  # type: ignore[misc]
    with pytest.raises(Conflict):
        database.write(lambda tx: resource_classes.create(tx, "CUSTOM_A"))
    with pytest.raises(Conflict):
        database.write(lambda tx: resource_classes.rename(tx, "CUSTOM_A", "CUSTOM_B"))
    with pytest.raises(InvalidRequest):
        database.write(lambda tx: resource_classes.rename(tx, "VCPU", "CUSTOM_C"))
    assert database.write(lambda tx: resource_classes.rename(tx, "CUSTOM_A", "CUSTOM_C")).name == "CUSTOM_C"
    with database.read() as connection:
        names = [each.name for each in resource_classes.list_all(connection)]
        with pytest.raises(NotFound, match="CUSTOM_A, PONY"):
            resource_classes.ids(connection, ["PONY", "CUSTOM_A", "VCPU"])
    assert names[-2:] == ["CUSTOM_C", "CUSTOM_B"]
