# SPDX-License-Identifier: Apache-2.0
"""Two service-group drivers, which declare hosts down. See docs/monitoring.md.

A database of another system, with a row for each host:

    [DEFAULT]
    servicegroup_driver = host_states.DatabaseStates
    [DatabaseStates]
    url = postgresql://reader@db/cluster
    query = SELECT host, up FROM nodes

A folder with a file for each host. Like an ephemeral node of ZooKeeper, the lock of a file ends with the process that
holds it. The folder must be on a file system with locks, such as NFS 4.

    [DEFAULT]
    servicegroup_driver = host_states.FolderStates
    [FolderStates]
    folder = /srv/members

On each host: ``python host_states.py /srv/members HOST``.
"""

import fcntl
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import sqlalchemy as sa


@dataclass
class DatabaseStates:
    """Reads the states of hosts from a database. ``query``: returns host and state; a state is true or false."""

    url: str
    query: str = "SELECT host, up FROM nodes"
    _engine: sa.Engine = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._engine = sa.create_engine(self.url, pool_pre_ping=True)

    def states(self) -> dict[str, bool]:
        with self._engine.connect() as connection:
            return {host: bool(up) for host, up in connection.execute(sa.text(self.query))}


@dataclass
class FolderStates:
    """A host is up while a process holds the lock of its file. Hosts without a file are judged by heartbeats."""

    folder: str

    def states(self) -> dict[str, bool]:
        return {file.name: _is_held(file) for file in Path(self.folder).iterdir() if file.is_file()}


def _is_held(file: Path) -> bool:
    with file.open("rb") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def join(folder: Path, host: str) -> None:
    """Hold the lock of a host's file until this process ends."""
    with (folder / host).open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    join(Path(sys.argv[1]), sys.argv[2])
