# SPDX-License-Identifier: Apache-2.0
"""A filter in a plug-in folder that sleeps at each evaluation, so that computations of real processes take long."""

from pathlib import Path

from kilonova.identifiers import new_uuid

#: Value of ``enabled_filters``.
SLOW_RULE = "SlowFilter"
_MODULE = """
import time

import numpy as np


class SlowFilter:
    reason = "slow"
    run_once = True
    runs_on_rebuild = False

    def passes(self, hosts, spec):
        time.sleep(0.3)
        return np.zeros(len(hosts), dtype=bool)
"""


def slow_rule(folder: Path) -> Path:
    """Write the plug-in, and return the folder for ``plugin_path``."""
    rules = folder / "slow_rules"
    rules.mkdir(exist_ok=True)
    # a process that loads the rules of several clouds knows each module by its name
    (rules / f"slow_rule_{new_uuid().replace('-', '_')}.py").write_text(_MODULE)
    return rules
