# SPDX-License-Identifier: Apache-2.0
"""Entry point of Alembic: runs the migrations on the connection that `kilonova.db.schema` passes."""

from alembic import context

from kilonova.db.core.tables import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
