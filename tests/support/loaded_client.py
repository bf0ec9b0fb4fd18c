# SPDX-License-Identifier: Apache-2.0
"""What the ``openstack`` client loads at each start: all command modules and the list of all installed packages.

To be imported by the process from which clients are forked. Loading it takes two thirds of the time of a command.
"""

import contextlib
from importlib.metadata import entry_points

from cliff import command

for group in sorted(name for name in entry_points().groups if name.startswith("openstack.")):
    for entry in entry_points(group=group):
        with contextlib.suppress(ImportError):
            entry.load()
command._get_distributions_by_modules()  # cliff keeps the list
