# SPDX-License-Identifier: Apache-2.0
"""Options of `kilonova console-proxy`: its listeners, allowed clients, limits and noVNC files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

from oslo_config import cfg

from kilonova.config.consoles import ConsoleSettings
from kilonova.config.log import LogSettings
from kilonova.config.option import Option
from kilonova.config.section import read_section, settings_of
from kilonova.errors import ConfigurationError
from kilonova.records import dataclass

_HOST, _PORT = "Address at which the proxy of {} consoles listens.", "Port at which the proxy of {} consoles listens."
_EVERYWHERE = "0.0.0.0"  # noqa: S104 - Nova's default
_AUTH_SCHEMES = ("none",)


def _tls(value: str) -> str:
    return "tlsv1_2" if value in {"default", "tlsv1_1"} else value


@dataclass(frozen=True, slots=True)
class ConsoleProxySettings:
    """Options of the console proxy.

    [vnc] enabled turns on VNC consoles; [serial_console] enabled turns on serial consoles.
    """

    GROUP: ClassVar[str] = "console"

    vnc_host: Annotated[str, Option(_HOST.format("VNC"), "novncproxy_host", "vnc")] = _EVERYWHERE
    vnc_port: Annotated[int, Option(_PORT.format("VNC"), "novncproxy_port", "vnc", min=1, max=65535)] = 6080
    serial_host: Annotated[str, Option(_HOST.format("serial"), "serialproxy_host", "serial_console")] = _EVERYWHERE
    serial_port: Annotated[
        int, Option(_PORT.format("serial"), "serialproxy_port", "serial_console", min=1, max=65535)
    ] = 6083
    auth_schemes: Annotated[
        tuple[str, ...], Option("Authentication of the proxy at hypervisors: only 'none' is supported.", group="vnc")
    ] = _AUTH_SCHEMES
    web: Annotated[Path | None, Option("Folder of the noVNC files that the proxy serves.", "web", "DEFAULT")] = Path(
        "/usr/share/novnc"
    )
    cert_file: Annotated[Path | None, Option("File with the proxy's TLS certificate.", "cert", "DEFAULT")] = None
    key_file: Annotated[
        Path | None, Option("File with the private key of cert; unset: the key is in cert.", "key", "DEFAULT")
    ] = None
    ssl_only: Annotated[bool, Option("Refuse to start without a certificate.", group="DEFAULT")] = False
    ssl_minimum_version: Annotated[
        str,
        Option(
            "Oldest TLS version that clients may use; 'default' and 'tlsv1_1' stand for 'tlsv1_2'.",
            choices=("default", "tlsv1_1", "tlsv1_2", "tlsv1_3"),
            read=_tls,
        ),
    ] = "default"
    ssl_ciphers: Annotated[str | None, Option("Ciphers that clients may use, in OpenSSL's notation.")] = None
    allowed_origins: Annotated[
        tuple[str, ...],
        Option(
            "Host names allowed in the Origin header, in addition to the host name in the Host header of the request."
        ),
    ] = ()
    max_connections: Annotated[int, Option("Most open console connections, of both kinds (Kilonova's own).", min=1)] = (
        500
    )
    max_connections_per_server: Annotated[
        int, Option("Most open console connections of one server (Kilonova's own).", min=1)
    ] = 10
    idle_timeout_s: Annotated[
        int,
        Option(
            "Seconds after which an idle console connection is closed; 0: never (Kilonova's own).",
            "idle_timeout",
            min=0,
        ),
    ] = 3600
    enforce_session_timeout: Annotated[
        bool, Option("Close an open console when its token expires, at most half a minute later.", group="consoleauth")
    ] = False


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """All settings of a console proxy.

    ``conf``: oslo.config object, for libraries that read their options themselves.
    """

    proxy: ConsoleProxySettings
    consoles: ConsoleSettings
    log: LogSettings
    conf: Any


def load_proxy_settings(files: Sequence[str]) -> ProxySettings:
    """Read the configuration files of a console proxy; later files override earlier ones.

    Raises: ConfigurationError naming the option.
    """
    conf = cfg.ConfigOpts()  # registering all of Kilonova's options would double the memory of the proxy
    for section in (ConsoleProxySettings, ConsoleSettings, LogSettings):
        for setting in settings_of(section):
            conf.register_opt(setting.oslo, group=None if setting.group == "DEFAULT" else setting.group)
    try:
        conf([], project="kilonova", default_config_files=list(files), default_config_dirs=[])
        proxy, consoles = read_section(ConsoleProxySettings, conf), read_section(ConsoleSettings, conf)
        return ProxySettings(proxy, consoles, read_section(LogSettings, conf), conf)
    except (cfg.Error, ValueError) as error:
        raise ConfigurationError(str(error).strip()) from error
