# SPDX-License-Identifier: Apache-2.0
"""``kilonova up`` with the stand-in for its control process: here only the supervisor and the companions matter."""

import sys
from pathlib import Path

from kilonova.cli.commands import up
from kilonova.cli.main import main

up.CONTROL_COMMAND = (sys.executable, str(Path(__file__).with_name("stand_in_control.py")))
sys.exit(main(["up", *sys.argv[1:]]))
