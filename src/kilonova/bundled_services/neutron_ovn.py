# SPDX-License-Identifier: Apache-2.0
"""Neutron with OVN: adaptation of Neutron's process to SQLite, and the repair of OVN's databases.

Run as a program, this module repairs OVN's databases: it makes them equal to Neutron's database. A repair is necessary
if OVN's databases are new: after a restore, or at the first start of the cloud with real guests.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

from kilonova.bundled_services import sqlite
from kilonova.bundled_services.host_network import run
from kilonova.bundled_services.private_file import write_private
from kilonova.errors import Unavailable

_MARK = "in-ovn"
_REPAIR_S = 300.0


def omit_heartbeats_of_the_monitor() -> None:
    """Stop the thread that reads OVN's databases from writing heartbeats to Neutron's database.

    A timer still writes them. The thread could deadlock with a request: the thread would wait for SQLite's only write
    lock, which the request holds, and the request would wait for the thread.
    """
    from neutron.plugins.ml2.drivers.ovn.mech_driver.ovsdb import ovsdb_monitor  # noqa: PLC0415  # only with OVN

    ovsdb_monitor.ovn_hash_ring_db = SimpleNamespace(touch_node=lambda *_: None)


def identity_of(northbound: str) -> str:
    """Return the unique id of a northbound database. ``northbound``: the connection to the database."""
    return run("ovn-nbctl", f"--db={northbound}", "get", "NB_Global", ".", "_uuid").strip()


def repair_if_new(folder: Path, identity: str, *, is_empty: bool, repair: Callable[[Path], None] | None = None) -> None:
    """Repair the databases of OVN, unless the last start used the same databases.

    ``folder``: that of Neutron, with ``neutron.conf``. ``identity``: id of the northbound database. ``is_empty``:
    Neutron's database is new, too, so there is nothing to repair. ``repair``: function that repairs the databases,
    called with the path of ``neutron.conf``; None: a separate process repairs them. Raises: Unavailable.
    """
    mark = folder / _MARK
    if mark.exists() and mark.read_text(encoding="utf-8") == identity:
        return
    if not is_empty:
        (repair or _repair)(folder / "neutron.conf")
    write_private(mark, identity)


def _repair(conf: Path) -> None:
    command = [sys.executable, "-m", "kilonova.bundled_services.neutron_ovn", str(conf)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, timeout=_REPAIR_S, check=False)  # noqa: S603
    if done.returncode != 0:
        raise Unavailable(f"the databases of OVN could not be repaired: exit status {done.returncode}")


def main() -> None:
    conf = sys.argv[1]
    sqlite.lock_on_first_write()
    sys.argv[1:] = ["--config-file", conf, "--ovn-neutron_sync_mode", "repair"]
    from neutron.cmd.ovn import neutron_ovn_db_sync_util  # noqa: PLC0415  # only the program

    neutron_ovn_db_sync_util.main()


if __name__ == "__main__":
    main()
