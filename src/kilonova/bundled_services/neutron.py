# SPDX-License-Identifier: Apache-2.0
"""Neutron's API in one process: creates the schema, then serves ``/``. It runs in a virtual environment of its own.

No other process of Neutron runs beside it: there are no agents and no broker.
"""

import argparse
import importlib.metadata
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kilonova.bundled_services import log_file, neutron_ovn, neutron_schema, serving, sqlite
from kilonova.bundled_services.neutron_conf import conf_text, policy_text
from kilonova.bundled_services.private_file import write_private
from kilonova.bundled_services.settings import NeutronSettings, load_neutron
from kilonova.errors import ConfigurationError
from kilonova.lasting import made_to_last
from kilonova.server.limits import Limits

_PASTE = "api-paste.ini"
#: Requests mostly use the CPU, which only one thread can use at a time. More threads would only wait for SQLite's write
#: lock, which is not granted in the order of the requests.
_THREADS = 4


def main() -> None:
    parser = argparse.ArgumentParser(description="Run Neutron for `kilonova up`.")
    parser.add_argument("--settings", type=Path, required=True)
    settings = load_neutron(parser.parse_args().settings)
    sys.argv[1:] = []  # hides the command line from oslo.config
    with made_to_last():
        application = prepare(settings)
    # Neutron handles SIGTERM itself and keeps running; this call sets Kilonova's handlers in place of Neutron's.
    limits = Limits(token_needed=bool(settings.auth_url))
    serving.serve(application, settings.host, settings.port, limits, _THREADS)


def prepare(settings: NeutronSettings) -> Callable[..., Any]:
    """Create or update Neutron's data folder from the settings, and return Neutron's WSGI application."""
    folder = Path(settings.folder)
    _use_temporary_folder(folder / "tmp")
    (folder / "locks").mkdir(mode=0o700, exist_ok=True)
    database = folder / "neutron.db"
    write_private(folder / "neutron.conf", conf_text(settings, database, _paste_file()))
    write_private(folder / "policy.yaml", policy_text(settings))
    is_new = not database.exists()
    sqlite.bring_up_to_date(database, importlib.metadata.version("neutron"), neutron_schema.migrate)
    sqlite.lock_on_first_write()
    os.environ["OS_NEUTRON_CONFIG_DIR"] = str(folder)
    os.environ["OS_NEUTRON_CONFIG_FILES"] = "neutron.conf"
    os.environ["ASGI_WORKERS"] = "1"  # without this variable, Neutron processes no events of OVN
    if settings.ovn is not None:
        identity = neutron_ovn.identity_of(settings.ovn.northbound)
        neutron_ovn.repair_if_new(folder, identity, is_empty=is_new)
        neutron_ovn.omit_heartbeats_of_the_monitor()
    from neutron.wsgi.api import application  # noqa: PLC0415  # the import configures Neutron

    log_file.hide_sql_values()
    log_file.take_over(settings.log_file)
    return application  # type: ignore[no-any-return,unused-ignore]


def _use_temporary_folder(folder: Path) -> None:
    """Empty ``folder`` and use it for temporary files.

    Otherwise Neutron would read a temporary file that an earlier process with the same parent has written.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)


def _paste_file() -> Path:
    """Return the paste file that Neutron's package installs. Raises: ConfigurationError."""
    for file in importlib.metadata.files("neutron") or ():
        if file.name == _PASTE:
            return Path(str(file.locate())).resolve()
    raise ConfigurationError(f"The installed neutron package has no {_PASTE}.")


if __name__ == "__main__":
    main()
