# SPDX-License-Identifier: Apache-2.0
"""Makes ``python -m kilonova`` run the ``kilonova`` command."""

import sys

from kilonova.cli.main import main

sys.exit(main())
