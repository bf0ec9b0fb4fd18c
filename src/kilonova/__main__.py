# SPDX-License-Identifier: Apache-2.0
"""``python -m kilonova`` is the ``kilonova`` command."""

import sys

from kilonova.cli.main import main

sys.exit(main())
