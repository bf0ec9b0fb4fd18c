# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys


def test_the_supervisor_starts_its_children_before_it_loads_large_libraries() -> None:
    loads = "import sys\nimport kilonova.cli.commands.up\nprint({'numpy', 'sqlalchemy', 'requests'} & set(sys.modules))"
    done = subprocess.run((sys.executable, "-c", loads), check=True, capture_output=True, text=True)
    assert done.stdout == "set()\n"
