# SPDX-License-Identifier: Apache-2.0
"""Data of earlier releases brought into their present form while the cloud runs, some rows a transaction.

A release reads the former form, too, until a later one says that it does not any more; by then these have to be done.
What is done is not found again, so they can be ended at any moment and begun again.
"""

from kilonova.db.online_migrations.online_migration import OnlineMigration
from kilonova.db.online_migrations.request_specs import REQUEST_SPECS

#: In the order in which they run.
ALL: tuple[OnlineMigration, ...] = (REQUEST_SPECS,)
