# SPDX-License-Identifier: Apache-2.0
"""Policy diffs in the process of a command, on the database of a configuration file, which is only read.

The operator of the machine runs it, so filters of any module may be tried.
"""

import sys
from collections.abc import Sequence
from typing import Any

from kilonova.api.operator.bodies.policy_change import AskedDiff
from kilonova.api.operator.diff_job import diff_of
from kilonova.api.operator.family import VERSION
from kilonova.api.operator.policy_changes import resolved_aggregates
from kilonova.api.operator.schemas.policy_change import DIFF
from kilonova.api.typed_body import read_typed
from kilonova.cli.wiring.changed_rules import ChangedRules
from kilonova.cli.wiring.rules import load_rules
from kilonova.config.load import load_settings
from kilonova.db.database import Database
from kilonova.records import replace


def local_diff(files: Sequence[str], body: dict[str, Any], filters: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return what a job of the kind ``diff`` answers. ``filters``: ``module:Class`` of filters to add.

    Modules are also found in the present folder. Raises: InvalidRequest naming the field, ConfigurationError.
    """
    DIFF.check(body, VERSION)
    asked = read_typed(AskedDiff, body)
    settings = load_settings(files)
    load_rules(settings)  # plug-ins declare their options
    if "" not in sys.path:
        sys.path.append("")
    rebuild = ChangedRules(settings, is_local=True).rebuild
    database = Database(settings.database.connection, response_timeout_s=settings.database.response_timeout_s)
    try:
        with database.read(patient=True) as connection:
            aggregates = resolved_aggregates(connection, asked)
            rules = replace(asked.rules, filters=filters)
            return diff_of(connection, rebuild, asked, aggregates, lambda _done, _text: None, rules)
    finally:
        database.close()
