# SPDX-License-Identifier: Apache-2.0
"""Entry point ``kilonova.wsgi:application`` for WSGI servers. ``KILONOVA_CONFIG`` names the configuration files.

An SQLite database supports only one process with this application; a database server supports any number.
"""

from kilonova.cli.commands.api import application as _build

application = _build()
