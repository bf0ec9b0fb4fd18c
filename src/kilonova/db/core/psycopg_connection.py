# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL's driver with an end to every wait. The only module that needs it to be installed."""

from typing import Any

import psycopg


class PatientConnection(psycopg.Connection[Any]):  # type: ignore[misc]
    """Gives its server up when an answer takes longer than ``longest_wait_s``; None waits for ever."""

    longest_wait_s: float | None = None

    def wait(self, gen: Any, *arguments: Any, timeout: float | None = None, **options: Any) -> Any:
        """Raises: psycopg.OperationalError; the connection is broken then."""
        try:
            return super().wait(gen, *arguments, timeout=timeout or self.longest_wait_s, **options)
        except psycopg.OperationalError:
            if self.pgconn.transaction_status == psycopg.pq.TransactionStatus.ACTIVE:
                self.pgconn.finish()  # an answer may still come, and nobody would read it
            raise
