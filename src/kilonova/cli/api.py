# SPDX-License-Identifier: Apache-2.0
"""`kilonova api`: serve the API alone (with the scheduler, the conductor and any simulated hosts it was told of)."""

import atexit
import errno
import logging
import os
import socket
import sys
import time
from collections.abc import Callable
from typing import Annotated, Any

import typer

from kilonova.cli import addresses
from kilonova.companions.parent_death import die_with_parent
from kilonova.errors import ConfigurationError, KilonovaError, StorageFull, Unavailable
from kilonova.logs import setup

CONFIG_VARIABLE = "KILONOVA_CONFIG"
_SWITCH_INTERVAL_S = 0.0005
_PORT_WAIT_S = 1.0  # a predecessor that is just dying is waited for


def api(
    config_file: Annotated[list[str], typer.Option("--config-file", help="Configuration file; later ones win.")],
) -> None:
    """Serve the compute, placement and operator APIs on the configured address."""
    from kilonova import config  # noqa: PLC0415 - what follows is slow to import and needed by this command only

    settings = config.load(config_file)
    os.environ[CONFIG_VARIABLE] = os.pathsep.join(os.path.abspath(path) for path in config_file)  # noqa: PTH100
    require_protected(settings.api)
    held = _hold_port(settings.api.bind_host, settings.api.bind_port)
    _check_start(settings)
    from granian import Granian  # noqa: PLC0415

    server = Granian(
        "kilonova.cli.api:serve",
        factory=True,
        interface="wsgi",
        address=settings.api.bind_host,
        port=settings.api.bind_port,
        workers=1,
        blocking_threads=settings.api.threads,
        backpressure=max(64, settings.api.threads * 16),
        http="1",
        websockets=False,
        log_enabled=True,
        log_level="warning",
        workers_kill_timeout=3,
        process_name="kilonova api",
    )
    logging.getLogger("_granian").addFilter(_is_news)
    with held:
        server.serve()


def require_protected(api: Any) -> None:
    """Refuse to serve an API without authentication to other machines. Raises: ConfigurationError."""
    if api.auth_strategy != "noauth2" or api.noauth2_beyond_loopback or addresses.is_loopback(api.bind_host):
        return
    raise ConfigurationError(
        f"[api] auth_strategy = noauth2 makes anybody an administrator, and {api.bind_host} can be reached from other "
        "machines: bind to 127.0.0.1, use keystone, or set [api] noauth2_beyond_loopback = true."
    )


def _is_news(record: logging.LogRecord) -> bool:
    """Drop the server's advice to have hardly more threads than cores: ours wait for the database most of the time."""
    return "number of CPU cores" not in record.getMessage()


def serve() -> Callable[..., Any]:
    """Start the control process inside granian's worker and return its WSGI application.

    What keeps it from starting is said in one line; granian's parent process then ends too.
    """
    die_with_parent()
    try:
        return application()
    except StorageFull as error:
        print(f"kilonova: {error.what}", file=sys.stderr, flush=True)
        os._exit(1)
    except KilonovaError as error:
        print(f"kilonova: {error.message}", file=sys.stderr, flush=True)
        os._exit(2 if isinstance(error, ConfigurationError) else 1)


def application() -> Callable[..., Any]:
    """Return the WSGI application for the configuration files named in ``KILONOVA_CONFIG`` (separated by ``:``)."""
    from kilonova import config  # noqa: PLC0415
    from kilonova.api.auth import strip_environment_headers  # noqa: PLC0415
    from kilonova.cli.control import start_control_process  # noqa: PLC0415

    files = [path for path in os.environ.get(CONFIG_VARIABLE, "").split(os.pathsep) if path]
    if not files:
        raise ConfigurationError(f"{CONFIG_VARIABLE} names no configuration file.")
    strip_environment_headers()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    settings = config.load(files)
    configure_log(settings)
    control = start_control_process(settings)
    atexit.register(control.close)
    return control.application


def configure_log(settings: Any) -> None:
    """Log as the settings say. Raises: ConfigurationError."""
    try:
        setup.configure(debug=settings.debug, file=settings.log_file)
    except OSError as error:
        raise ConfigurationError(
            f"[DEFAULT] log_file: {error.filename} cannot be written: {error.strerror}."
        ) from error


def _check_start(settings: Any) -> None:
    """Say at once, in one line, what would only fail inside the worker."""
    from kilonova.cli.control import prepare  # noqa: PLC0415
    from kilonova.cli.scenario_settings import require_known_options  # noqa: PLC0415
    from kilonova.scenario.load import load_scenario  # noqa: PLC0415

    prepare(settings)
    if settings.fake.scenario:
        require_known_options(load_scenario(settings.fake.scenario), settings)


def _hold_port(host: str, port: int) -> socket.socket:
    """Make sure that nobody else serves the port, and keep other instances off it until the socket is closed.

    granian always shares its port (SO_REUSEPORT): a second instance would silently take part of the connections. The
    kernel forgets the name in its abstract namespace with the last process that holds it, however that ends.
    """
    deadline = time.monotonic() + _PORT_WAIT_S
    while True:
        holder = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            holder.bind(f"\0kilonova-api-{host}-{port}")
            _probe_port(host, port)
        except OSError as error:
            holder.close()
            if error.errno != errno.EADDRINUSE or time.monotonic() > deadline:
                raise Unavailable(f"[api] bind: {host}:{port} cannot be used: {error.strerror}.") from error
            time.sleep(0.05)
        else:
            return holder


def _probe_port(host: str, port: int) -> None:
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)
