# SPDX-License-Identifier: Apache-2.0
"""``kilonova up`` with a fake control process, to test the supervisor and its bundled services alone."""

import sys
from pathlib import Path

from kilonova.cli.commands import up
from kilonova.cli.main import main

up.CONTROL_COMMAND = (sys.executable, str(Path(__file__).with_name("stand_in_control.py")))
sys.exit(main(["up", *sys.argv[1:]]))
