# SPDX-License-Identifier: Apache-2.0
import json
import subprocess
import sys

from kilonova.cli.up import shared_modules

_PROGRAM = """
import json, sys, threading
from kilonova.cli.up import shared_modules
shared_modules.load_common()
shared_modules.load_openstack()
import gc
print(json.dumps([sorted(sys.modules), threading.active_count(), gc.isenabled(), sys.argv]))
"""
#: Packages that Keystone or Glance loads later, or that read the command line when they are loaded.
_OF_THE_CHILDREN = {
    "saml2",
    "openstack",
    "castellan",
    "cursive",
    "keystone",
    "glance",
    "oslo_service",
}


def test_shared_modules_are_libraries_that_start_no_threads_and_leave_the_rest_to_the_children() -> None:
    command = [sys.executable, "-P", "-c", _PROGRAM, "--flag"]
    output = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded, threads, collects, argv = json.loads(output.stdout)
    assert output.stderr == ""
    assert not {each.partition(".")[0] for each in loaded} & _OF_THE_CHILDREN
    assert {"sqlalchemy", "requests", "oslo_db", "webob"} <= set(loaded)
    assert threads == 1
    assert collects
    assert argv == ["-c", "--flag"]


def test_every_shared_module_exists() -> None:
    names = (*shared_modules.COMMON, *shared_modules.OPENSTACK)
    program = "import importlib.util, sys; print([n for n in sys.argv[1:] if importlib.util.find_spec(n) is None])"
    command = [sys.executable, "-P", "-c", program, *names]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"
