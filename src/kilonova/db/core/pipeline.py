# SPDX-License-Identifier: Apache-2.0
"""Statements in one round trip: PostgreSQL's pipeline mode, and several statements in one message to MariaDB.

On SQLite, each statement runs at once. Inside of a pipeline the answer of a statement arrives with the end of the
block, so only statements whose answers are read later may be sent: ``Prepared.send``, or ``run`` if nothing depends on
the number of rows. SQLAlchemy's own ``execute`` reads the answer at once, and must not be called.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy.engine import Connection

from kilonova.db.core.prepared import raised


@contextmanager
def pipelined(connection: Connection) -> Iterator[None]:
    """Send the statements of the ``with`` block without waiting for the answers; wait for all of them at its end.

    Raises: the first error of a statement; the statements after it are not run.
    """
    driver: Any = connection.connection.dbapi_connection
    if not getattr(driver, "can_pipeline", False):
        yield
        return
    failures = connection.dialect.loaded_dbapi.Error
    try:
        with driver.pipeline() as pipeline:
            try:
                yield
            except BaseException:
                with suppress(failures):
                    pipeline.sync()  # reads the remaining answers, so that the transaction can be rolled back
                raise
    except failures as error:
        raise raised(connection, "a pipeline", error) from error


def send_commit(connection: Connection) -> None:
    """Send COMMIT in a pipeline, in one round trip with the statements before it."""
    driver: Any = connection.connection.dbapi_connection
    if getattr(driver, "can_pipeline", False):
        driver.execute("COMMIT")
