# SPDX-License-Identifier: Apache-2.0
"""`kilonova api`: a control process, with the APIs, the scheduler, the conductor and the configured simulated hosts."""

import atexit
import gc
import os
import socket
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import typer

from kilonova.cli.cloud.settings import RequiredConfigFiles
from kilonova.cli.wiring import addresses
from kilonova.cli.wiring.log import configure_log, reread_debug
from kilonova.errors import ConfigurationError
from kilonova.lasting import made_to_last

if TYPE_CHECKING:
    from kilonova.cli.wiring.control import ControlProcess
    from kilonova.cli.workers.processes import Worker, WorkerIdentity
    from kilonova.config.settings import Settings

CONFIG_VARIABLE = "KILONOVA_CONFIG"
_SWITCH_INTERVAL_S = 0.0005
#: Threshold of the cyclic garbage collector. Requests leave no reference cycles, and with Python's default of 700 a
#: collection would run every two requests.
_COLLECT_AFTER = 20_000


def api(config_file: RequiredConfigFiles) -> None:
    """Serve the compute, Placement and operator APIs on the configured address."""
    with made_to_last():
        from kilonova.cli.wiring import control  # noqa: F401, PLC0415 - workers share the memory of what is imported now
        from kilonova.cli.wiring.http_server import http_server, open_port  # noqa: PLC0415 - start-up time
        from kilonova.cli.workers.settings import require_ports  # noqa: PLC0415 - start-up time
        from kilonova.config.load import load_settings  # noqa: PLC0415 - slow to import, needed by this command only
        from kilonova.config.workers import require_server_database  # noqa: PLC0415 - start-up time
        from kilonova.server.serving import serve_until_told  # noqa: PLC0415 - start-up time

    settings = load_settings(config_file)
    os.environ[CONFIG_VARIABLE] = os.pathsep.join(os.path.abspath(path) for path in config_file)  # noqa: PTH100
    require_protected(settings.api)
    require_server_database(settings.api.workers, settings.database.connection)
    require_ports(settings)
    listeners, tls = open_port(settings)
    require_known_scenario_options(settings)
    again = reread_debug(lambda: load_settings(config_file).log)
    if len(listeners) == 1:
        wsgi_application = application()
        with listeners[0]:
            serve_until_told(http_server(settings, wsgi_application, listeners[0], tls), again)
        return
    worker = run_workers(settings, listeners, again)
    if isinstance(worker, int):
        raise typer.Exit(worker)
    wsgi_application = application(worker.identity)
    serve_until_told(worker.serving(http_server(settings, wsgi_application, worker.listener, tls)), again)


def run_workers(settings: Any, listeners: Sequence[socket.socket], on_hangup: Callable[[], None]) -> "Worker | int":
    """Fork the workers. Return the worker in each worker process.

    In the parent process, return the exit status after all workers have stopped.
    """
    from kilonova.cli.workers import processes  # noqa: PLC0415 - start-up time

    configure_log(settings.log)
    return processes.run_workers(listeners, on_hangup)


def require_protected(api: Any) -> None:
    """Raise ConfigurationError if an API without authentication would be reachable from other machines."""
    if api.auth_strategy != "noauth2" or api.noauth2_beyond_loopback or addresses.is_loopback(api.bind.host):
        return
    raise ConfigurationError(
        f"[api] auth_strategy = noauth2 makes every client an administrator, and {api.bind.host} is open to other "
        "machines: bind to 127.0.0.1, use keystone, or set [api] noauth2_beyond_loopback = true."
    )


def application(worker: "WorkerIdentity | None" = None) -> Callable[..., Any]:
    """Return the WSGI application for the configuration files named in ``KILONOVA_CONFIG`` (separated by ``:``).

    ``worker``: the worker that this process is; None if this is the only control process on its port.
    """
    from kilonova.api.auth import strip_environment_headers  # noqa: PLC0415 - start-up time
    from kilonova.cli.wiring.control import start_control_process  # noqa: PLC0415 - start-up time
    from kilonova.config.load import load_settings  # noqa: PLC0415 - start-up time

    files = [path for path in os.environ.get(CONFIG_VARIABLE, "").split(os.pathsep) if path]
    if not files:
        raise ConfigurationError(f"{CONFIG_VARIABLE} must list the configuration files.")
    strip_environment_headers()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    gc.set_threshold(_COLLECT_AFTER)
    settings = load_settings(files)
    configure_log(settings.log)
    control = start_control_process(settings) if worker is None else start_worker(settings, worker)
    gc.freeze()  # exempt modules, routes and schemas, which live as long as the process, from garbage collection
    atexit.register(control.close)
    return control.application


def start_worker(settings: "Settings", worker: "WorkerIdentity") -> "ControlProcess":
    """Start the control process of a worker. Only worker 1 runs hosts; each worker has a metrics port of its own."""
    from kilonova.cli.wiring.control import start_control_process  # noqa: PLC0415 - start-up time
    from kilonova.cli.wiring.core import Parts  # noqa: PLC0415 - start-up time
    from kilonova.cli.workers.settings import settings_of  # noqa: PLC0415 - start-up time

    parts = Parts(owner=worker.owner, predecessors=worker.predecessors, serves_hosts=worker.serves_hosts)
    return start_control_process(settings_of(worker.number, settings), parts)


def require_known_scenario_options(settings: Any) -> None:
    """Raise ConfigurationError if the scenario sets an unknown option."""
    from kilonova.cli.scenarios.settings import require_known_options  # noqa: PLC0415 - start-up time
    from kilonova.scenario.load import load_scenario  # noqa: PLC0415 - start-up time

    if settings.fake.scenario:
        require_known_options(load_scenario(settings.fake.scenario), settings)
