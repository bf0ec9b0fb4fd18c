# SPDX-License-Identifier: Apache-2.0
"""``kilonova.wsgi:application`` for any WSGI server; ``KILONOVA_CONFIG`` names the configuration files.

One process serves one SQLite file; on a server database, as many as there is work for.
"""

from kilonova.cli.commands.api import application as _build

application = _build()
