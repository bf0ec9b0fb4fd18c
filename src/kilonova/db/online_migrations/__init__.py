# SPDX-License-Identifier: Apache-2.0
"""Online data migrations: rows of earlier releases are rewritten in batches while the cloud runs.

Every release can read the former form of a row until a later release drops that form; by then, its online migration
must be complete. A run skips the rows that are migrated already, so it can be stopped and repeated at any time.
"""

from kilonova.db.online_migrations.online_migration import OnlineMigration
from kilonova.db.online_migrations.request_specs import REQUEST_SPECS

#: All online migrations in the order in which they run.
ALL: tuple[OnlineMigration, ...] = (REQUEST_SPECS,)
