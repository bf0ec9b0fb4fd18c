# SPDX-License-Identifier: Apache-2.0
"""`kilonova api`: serve the API alone (with the scheduler, the conductor and any simulated hosts it was told of)."""

import atexit
import gc
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from kilonova.cli.wiring import addresses
from kilonova.cli.wiring.log import configure_log, reread_debug
from kilonova.errors import ConfigurationError

CONFIG_VARIABLE = "KILONOVA_CONFIG"
_SWITCH_INTERVAL_S = 0.0005
#: New objects after which the collector looks for cycles. Requests leave none; 700 would be one look in two requests.
_COLLECT_AFTER = 20_000


def api(
    config_file: Annotated[list[str], typer.Option("--config-file", help="Configuration file; later ones win.")],
) -> None:
    """Serve the compute, placement and operator APIs on the configured address."""
    from kilonova.cli.wiring.http_server import http_server, open_port  # noqa: PLC0415 - start-up time
    from kilonova.config.load import load_settings  # noqa: PLC0415 - what follows is slow to import and needed by this command only
    from kilonova.server.serving import serve_until_told  # noqa: PLC0415 - start-up time

    settings = load_settings(config_file)
    os.environ[CONFIG_VARIABLE] = os.pathsep.join(os.path.abspath(path) for path in config_file)  # noqa: PTH100
    require_protected(settings.api)
    listener, tls = open_port(settings)
    require_known_scenario_options(settings)
    wsgi_application = application()
    with listener:
        again = reread_debug(lambda: load_settings(config_file).log)
        serve_until_told(http_server(settings, wsgi_application, listener, tls), again)


def require_protected(api: Any) -> None:
    """Refuse to serve an API without authentication to other machines. Raises: ConfigurationError."""
    if api.auth_strategy != "noauth2" or api.noauth2_beyond_loopback or addresses.is_loopback(api.bind.host):
        return
    raise ConfigurationError(
        f"[api] auth_strategy = noauth2 makes anybody an administrator, and {api.bind.host} can be reached from other "
        "machines: bind to 127.0.0.1, use keystone, or set [api] noauth2_beyond_loopback = true."
    )


def application() -> Callable[..., Any]:
    """Return the WSGI application for the configuration files named in ``KILONOVA_CONFIG`` (separated by ``:``)."""
    from kilonova.api.auth import strip_environment_headers  # noqa: PLC0415 - start-up time
    from kilonova.cli.wiring.control import start_control_process  # noqa: PLC0415 - start-up time
    from kilonova.config.load import load_settings  # noqa: PLC0415 - start-up time

    files = [path for path in os.environ.get(CONFIG_VARIABLE, "").split(os.pathsep) if path]
    if not files:
        raise ConfigurationError(f"{CONFIG_VARIABLE} names no configuration file.")
    strip_environment_headers()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    gc.set_threshold(_COLLECT_AFTER)
    settings = load_settings(files)
    configure_log(settings.log)
    control = start_control_process(settings)
    gc.freeze()  # modules, routes, schemas and the like stay until the end
    atexit.register(control.close)
    return control.application


def require_known_scenario_options(settings: Any) -> None:
    """Raises: ConfigurationError for a scenario that sets an option that does not exist."""
    from kilonova.cli.scenarios.settings import require_known_options  # noqa: PLC0415 - start-up time
    from kilonova.scenario.load import load_scenario  # noqa: PLC0415 - start-up time

    if settings.fake.scenario:
        require_known_options(load_scenario(settings.fake.scenario), settings)
