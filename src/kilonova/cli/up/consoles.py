# SPDX-License-Identifier: Apache-2.0
"""The console proxy of ``kilonova up``. The console URLs that users get contain the proxy's address.

The proxy's configuration file contains the password of a user who may only look up console tokens.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kilonova.bundled_services.private_file import write_private
from kilonova.cli.up.children import RUN_MODULE, Child
from kilonova.cli.up.log_options import log_options
from kilonova.cli.wiring.addresses import Address
from kilonova.records import dataclass
from kilonova.scenario.options import Sections, conf_text, with_defaults

#: Options copied from the operator's file to the proxy's. The addresses to listen on are not copied, because options of
#: ``kilonova up`` set them.
_TAKEN_OVER = (
    ("DEFAULT", "debug"),
    ("DEFAULT", "web"),
    ("console", "allowed_origins"),
    ("console", "max_connections"),
    ("console", "max_connections_per_server"),
    ("console", "idle_timeout"),
    ("consoleauth", "enforce_session_timeout"),
)
#: Sections of the operator's file that may have credentials for looking up console tokens, if the cloud has no bundled
#: Keystone.
_USERS = ("nova", "service_user")
_PAGE, _WEB = "vnc_lite.html", "/usr/share/novnc"


@dataclass(frozen=True, slots=True)
class ConsolePart:
    """The console proxy of a cloud: its addresses, and its files in the data folder."""

    folder: Path
    vnc: Address
    serial: Address

    @property
    def log(self) -> Path:
        return self.folder / "log" / "console-proxy.log"

    def needed(self) -> dict[str, Address]:
        return {
            "the proxy of VNC consoles (--novnc-port)": self.vnc,
            "the proxy of serial consoles (--serial-port)": self.serial,
        }

    def options(self) -> Sections:
        """Return the options that make control processes use this proxy in console URLs."""
        return {
            "vnc": {"novncproxy_base_url": f"{self.vnc.public_url}/{_PAGE}"},
            "serial_console": {
                "enabled": "true",
                "base_url": f"{self.serial.public_url.replace('http:', 'ws:', 1)}/",
            },
        }

    def start(
        self, compute_url: str, login: Mapping[str, str] | None, operator: Sections, kind: type[Child] = Child
    ) -> Child:
        """Write the proxy's configuration file, and start the proxy.

        ``kind``: how its process is started. The other parameters are those of :meth:`write`.
        """
        file = self.write(compute_url, login, operator)
        command = (*RUN_MODULE, "kilonova", "console-proxy", "--config-file", str(file))
        return kind("console-proxy", command, self.log, f"{self.vnc.local_url}/healthcheck", self.folder)

    def write(self, compute_url: str, login: Mapping[str, str] | None, operator: Sections) -> Path:
        """Write the proxy's configuration file and return its path.

        ``operator``: options of the operator's file. ``login``: credentials of the proxy's user; None if ``operator``
        contains credentials.
        """
        users = {name: operator[name] for name in _USERS if name in operator} if login is None else {"nova": login}
        taken: dict[str, dict[str, Any]] = {}
        for group, name in _TAKEN_OVER:
            if name in operator.get(group, {}):
                taken.setdefault(group, {})[name] = operator[group][name]
        own: Sections = {
            **log_options(self.log),
            "vnc": {"novncproxy_host": self.vnc.host, "novncproxy_port": self.vnc.port},
            "serial_console": {
                "enabled": "true",
                "serialproxy_host": self.serial.host,
                "serialproxy_port": self.serial.port,
            },
            "nova": {"endpoint_override": compute_url},
        }
        file = self.folder / "console-proxy.conf"
        text = conf_text(with_defaults(with_defaults(users, own), taken))
        write_private(file, f"# Written at every start by `kilonova up`.\n{text}")
        return file

    def lacks_novnc(self, operator: Sections) -> bool:
        """Return True if noVNC is missing in the folder from which the proxy serves noVNC's pages."""
        folder = operator.get("DEFAULT", {}).get("web", _WEB)
        return bool(folder) and not (Path(folder) / _PAGE).is_file()


def is_possible(operator: Sections) -> bool:
    """Return True if the operator's file has credentials with which the proxy can look up console tokens."""
    return any(operator.get(name, {}).get("auth_type") for name in _USERS)
