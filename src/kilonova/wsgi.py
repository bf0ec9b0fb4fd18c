# SPDX-License-Identifier: Apache-2.0
"""Entry point ``kilonova.wsgi:application`` for WSGI servers.

The environment variable ``KILONOVA_CONFIG`` lists the configuration files.

An SQLite database supports only one process with this application; a database server supports any number.
"""

from kilonova.cli.commands.api import application as _build

application = _build()
