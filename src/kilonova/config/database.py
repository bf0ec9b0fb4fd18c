# SPDX-License-Identifier: Apache-2.0
"""[database]: the connections to the database."""

from typing import Annotated, ClassVar

from kilonova.config.option import Option
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """Connections to the database, and the timeout after which its server counts as hung."""

    GROUP: ClassVar[str] = "database"

    connection: Annotated[str, Option("URL of the database: sqlite:///FILE, postgresql://… or mysql://…", secret=True)]
    slave_connection: Annotated[
        str | None,
        Option("URL of a read replica, from which the counts in the metrics are read; it may lag behind.", secret=True),
    ] = None
    replica_lists: Annotated[
        bool,
        Option("Whether lists of servers, moves and usage are read from slave_connection, too (Kilonova's own)."),
    ] = False
    replica_max_age_s: Annotated[
        float,
        Option(
            "Seconds; if the data of slave_connection may be older, lists are read from connection (Kilonova's own).",
            name="replica_max_age",
            min=1.0,
        ),
    ] = 30.0
    response_timeout_s: Annotated[
        float,
        Option(
            "Seconds without any answer after which the database server counts as hung: requests "
            "are refused with 503 until it answers again (Kilonova's own).",
            name="response_timeout",
            min=0.1,
        ),
    ] = 3.0

    @property
    def is_sqlite(self) -> bool:
        """Whether the database is a file, which has only one control process."""
        return self.connection.partition(":")[0].partition("+")[0] == "sqlite"
