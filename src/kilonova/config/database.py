# SPDX-License-Identifier: Apache-2.0
"""[database]."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from kilonova.config.option import Option


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """Which database, and for how long it may be silent."""

    GROUP: ClassVar[str] = "database"

    connection: Annotated[str, Option("sqlite:///FILE, postgresql://… or mysql://…", secret=True)]
    slave_connection: Annotated[
        str | None,
        Option("A replica that is read for what is counted from time to time, for metrics; it may lag.", secret=True),
    ] = None
    response_timeout_s: Annotated[
        float,
        Option(
            "Seconds in which a database server says nothing to anybody, after which it counts as hung: requests "
            "are refused with 503 until it answers again (Kilonova's own).",
            name="response_timeout",
            min=0.1,
        ),
    ] = 3.0
