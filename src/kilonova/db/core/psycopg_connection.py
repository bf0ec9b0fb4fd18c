# SPDX-License-Identifier: Apache-2.0
"""A psycopg connection with a timeout for every answer. No other module imports psycopg."""

from typing import Any

import psycopg


class PatientConnection(psycopg.Connection[Any]):  # type: ignore[misc]
    """A connection that breaks if an answer takes longer than ``longest_wait_s``; None: no timeout."""

    longest_wait_s: float | None = None
    #: Whether libpq can send several statements in one round trip.
    can_pipeline = psycopg.Pipeline.is_supported()

    def wait(self, gen: Any, *arguments: Any, timeout: float | None = None, **options: Any) -> Any:
        """Wait for an answer. Raises: psycopg.OperationalError; after a timeout the connection is closed."""
        try:
            return super().wait(gen, *arguments, timeout=timeout or self.longest_wait_s, **options)
        except psycopg.OperationalError:
            if self.pgconn.transaction_status == psycopg.pq.TransactionStatus.ACTIVE:
                self.pgconn.finish()  # otherwise a late answer would be read as the answer to the next statement
            raise
