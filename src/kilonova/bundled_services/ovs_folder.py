# SPDX-License-Identifier: Apache-2.0
"""A folder with the databases, sockets and logs of processes of Open vSwitch and OVN.

The machine's own Open vSwitch uses other sockets, and is not touched.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from kilonova.bundled_services.host_network import run
from kilonova.bundled_services.ovs_process import OvsProcess
from kilonova.bundled_services.program_path import PATH
from kilonova.bundled_services.short_way import make_short_way, short_way

_SCHEMAS = {
    "northbound": "/usr/share/ovn/ovn-nb.ovsschema",
    "southbound": "/usr/share/ovn/ovn-sb.ovsschema",
    "switch": "/usr/share/openvswitch/vswitch.ovsschema",
}
#: Databases that can listen for TLS connections: their schemas, and the tables that have the connections.
_TLS = {"northbound": ("OVN_Northbound", "NB_Global"), "southbound": ("OVN_Southbound", "SB_Global")}
_LONGEST = "/run/ovn-controller.1234567890.ctl"


class OvsFolder:
    """The folder ``path``. ``run``: path of the sockets in it. ``suffix``: added to the names of its processes."""

    def __init__(self, path: Path, suffix: str = "") -> None:
        self.path = path
        self._suffix = suffix
        #: Path of the folder without spaces, and short enough for sockets.
        self.base = short_way(path, len(_LONGEST))
        self.run = f"{self.base}/run"

    def make(self) -> None:
        """Create the folder, and remove the sockets of processes that were killed. Raises: ConfigurationError."""
        for folder in (self.path, self.path / "run", self.path / "log"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in (self.path / "run").iterdir():
            left.unlink()
        if self.base != str(self.path):
            make_short_way(Path(self.base), self.path)

    def close(self) -> None:
        """Remove the short link to the folder."""
        if self.base != str(self.path):
            Path(self.base).unlink(missing_ok=True)

    def prepare(self, *databases: str) -> None:
        """Create databases, or convert them to the schemas of the installed release. Raises: Unavailable."""
        for name in databases:
            file, schema = self.path / f"{name}.db", _SCHEMAS[name]
            if not file.exists():
                run("ovsdb-tool", "create", str(file), schema)
            elif run("ovsdb-tool", "needs-conversion", str(file), schema).strip() == "yes":
                run("ovsdb-tool", "convert", str(file), schema)

    def database(self, name: str) -> OvsProcess:
        """Return the server of a database, without starting it."""
        socket = "db.sock" if name == "switch" else f"{name}.sock"  # ovs-vsctl looks for db.sock
        command = f"ovsdb-server {self.base}/{name}.db --remote=punix:{self.run}/{socket}"
        if name in _TLS:
            command += "".join(f" --{option}=db:{column}" for option, column in _tls_options(*_TLS[name]))
        return self.process(name, command, socket)

    def process(
        self, name: str, command: str, socket: str | None = None, *, within: tuple[str, ...] = ()
    ) -> OvsProcess:
        """Return a process, without starting it. It is ready when it listens on ``socket`` in the folder.

        ``socket``: None for its control socket. ``within``: words before the command, which change its namespace.
        """
        words = [*within, *command.split(" "), "-vconsole:warn", "-vsyslog:off"]
        if name != "controller":
            words.append(f"--unixctl={self.run}/{name}.ctl")
        path = f"{self.run}/{socket or f'{name}.ctl'}"
        log = self.path / "log" / f"{name}.log"
        return OvsProcess(f"ovn-{name}{self._suffix}", words, path, log, self._environment())

    def _environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("LANG", "LC_ALL", "TZ") if name in os.environ}
        places = {f"{what}_RUNDIR": self.run for what in ("OVS", "OVN")}
        places |= {f"{what}_LOGDIR": f"{self.base}/log" for what in ("OVS", "OVN")}
        places |= {f"{what}_DBDIR": self.base for what in ("OVS", "OVN")}
        return {**kept, **places, "PATH": PATH}


def _tls_options(schema: str, table: str) -> Iterator[tuple[str, str]]:
    """Yield options of a database server, and the columns in which the server finds their values."""
    yield "remote", f"{schema},{table},connections"
    yield "private-key", f"{schema},SSL,private_key"
    yield "certificate", f"{schema},SSL,certificate"
    yield "ca-cert", f"{schema},SSL,ca_cert"


def quoted(text: str) -> str:
    """Return a text as a string of Open vSwitch's databases."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
