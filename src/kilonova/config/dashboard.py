# SPDX-License-Identifier: Apache-2.0
"""Options of `kilonova dashboard`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar
from urllib.parse import urlsplit

from oslo_config import cfg

from kilonova.config.log import LogSettings
from kilonova.config.option import Option
from kilonova.config.section import read_section, settings_of
from kilonova.errors import ConfigurationError
from kilonova.records import dataclass


def _origin(value: str) -> str:
    """Return a URL without its path. Raises: ValueError."""
    parts = urlsplit(value)
    if parts.scheme not in {"http", "https"} or not parts.netloc or parts.path not in {"", "/"}:
        raise ValueError(f"{value!r} is not an address such as https://dashboard.example.")
    return f"{parts.scheme}://{parts.netloc}"


@dataclass(frozen=True, slots=True)
class DashboardSettings:
    """Options of the dashboard. Units: seconds where the name ends with ``_s``."""

    GROUP: ClassVar[str] = "dashboard"

    auth_url: Annotated[str, Option("URL of Keystone.")]
    host: Annotated[str, Option("Address at which the dashboard listens.")] = "127.0.0.1"
    port: Annotated[int, Option("Port at which the dashboard listens.", min=1, max=65535)] = 8790
    public_url: Annotated[
        str | None,
        Option("Address of the dashboard in browsers, if a proxy is in front of it; unset: no proxy.", read=_origin),
    ] = None
    region: Annotated[str | None, Option("Region of the services in Keystone's catalogue; unset: any.")] = None
    default_domain: Annotated[str, Option("Domain that the sign-in page proposes.")] = "Default"
    cafile: Annotated[
        Path | None, Option("Certificate authorities that sign the certificates of the cloud's APIs.")
    ] = None
    cert_file: Annotated[Path | None, Option("File with the dashboard's TLS certificate; unset: no TLS.")] = None
    key_file: Annotated[Path | None, Option("File with the private key; unset: it is in cert_file.")] = None
    session_idle_timeout_s: Annotated[
        int, Option("Seconds without a request after which a user is signed out.", "session_idle_timeout", min=60)
    ] = 1800
    sign_in_attempts: Annotated[
        int, Option("Failed sign-ins of an account within five minutes before it has to wait.", min=1)
    ] = 5


def load_dashboard_settings(files: Sequence[str]) -> tuple[DashboardSettings, LogSettings]:
    """Read the configuration files of a dashboard; later files override earlier ones.

    Raises: ConfigurationError naming the option.
    """
    conf = cfg.ConfigOpts()  # registering all of Kilonova's options would take more memory
    for section in (DashboardSettings, LogSettings):
        for setting in settings_of(section):
            conf.register_opt(setting.oslo, group=None if setting.group == "DEFAULT" else setting.group)
    try:
        conf([], project="kilonova", default_config_files=list(files), default_config_dirs=[])
        return read_section(DashboardSettings, conf), read_section(LogSettings, conf)
    except (cfg.Error, ValueError) as error:
        raise ConfigurationError(str(error).strip()) from error
