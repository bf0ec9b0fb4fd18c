# SPDX-License-Identifier: Apache-2.0
"""Online data migrations: rows of earlier releases are rewritten in batches while the cloud runs.

A release can read the former form until a later release drops it; these migrations must be complete by then. Migrated
rows are not found again, so a run can be stopped and repeated at any time.
"""

from kilonova.db.online_migrations.online_migration import OnlineMigration
from kilonova.db.online_migrations.request_specs import REQUEST_SPECS

#: All online migrations in the order in which they run.
ALL: tuple[OnlineMigration, ...] = (REQUEST_SPECS,)
