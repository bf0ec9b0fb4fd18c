# SPDX-License-Identifier: Apache-2.0
"""The type of online data migrations, and the function that runs one."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from sqlalchemy.engine import Connection

from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.errors import Unavailable
from kilonova.records import dataclass

LOG = logging.getLogger(__name__)
#: Rows per transaction.
AT_ONCE = 50


@dataclass(frozen=True, slots=True)
class OnlineMigration:
    """An online data migration.

    ``find``: yields the keys of rows in the former form, reading page by page. ``change``: rewrites the rows with these
    keys, skips absent and migrated rows, and returns how many it changed.
    """

    name: str
    find: Callable[[Connection], Iterator[str]]
    change: Callable[[Transaction, Sequence[str]], int]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run: number of rows to change, number of changed rows, and whether any row failed."""

    name: str
    found: int
    done: int
    failed: bool


def pending(database: Database, migration: OnlineMigration) -> int:
    """Count the rows in the former form."""
    with database.read(patient=True) as connection:
        return sum(1 for _ in migration.find(connection))


def run(
    database: Database,
    migration: OnlineMigration,
    most: int | None = None,
    rest: Callable[[float], object] = time.sleep,
) -> Outcome:
    """Change up to ``most`` rows in batches, and pause after each batch for as long as that batch took.

    Rows that cannot be changed are logged and skipped.
    """
    with database.read(patient=True) as connection:
        found = migration.find(connection)
        keys = [key for key, _ in zip(found, range(most), strict=False)] if most is not None else list(found)
    done, failed = 0, False
    for start in range(0, len(keys), AT_ONCE):
        began = time.monotonic()
        some = keys[start : start + AT_ONCE]
        changed, all_well = _changed(database, migration, some)
        done, failed = done + changed, failed or not all_well
        rest(time.monotonic() - began)
    return Outcome(migration.name, len(keys), done, failed)


def _changed(database: Database, migration: OnlineMigration, keys: Sequence[str]) -> tuple[int, bool]:
    """Change rows together, or one by one if that fails.

    Returns the number of changed rows, and whether all rows were changed.
    """
    try:
        return database.write(partial(_change, migration, keys)), True
    except Unavailable:
        raise
    except Exception as error:  # noqa: BLE001 - one bad row must not stop the others
        if len(keys) == 1:
            LOG.error("Migration of %s: row %s failed: %s", migration.name, keys[0], error)  # noqa: TRY400
            return 0, False
    alone = [_changed(database, migration, [key]) for key in keys]
    return sum(count for count, _ in alone), all(is_well for _, is_well in alone)


def _change(migration: OnlineMigration, keys: Sequence[str], tx: Transaction) -> int:
    return migration.change(tx, keys)
