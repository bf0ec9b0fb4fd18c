# SPDX-License-Identifier: Apache-2.0
"""The database layer: tables, migrations, and one module of functions per resource.

Functions that read take a connection, functions that write a :class:`~kilonova.db.core.transaction.Transaction`; both
return model dataclasses. Forbidden here: HTTP, messaging, scheduling, and locks or decisions held in memory.
"""
