# SPDX-License-Identifier: Apache-2.0
"""The only truth: tables, migrations, one module of functions per resource.

Readers take a connection, writers a :class:`~kilonova.db.database.Transaction`; both give back model dataclasses.
Forbidden here: HTTP, messaging, scheduling, and any lock or decision held in memory.
"""
