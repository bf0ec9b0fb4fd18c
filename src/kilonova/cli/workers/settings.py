# SPDX-License-Identifier: Apache-2.0
"""Settings of a single worker: those of the configuration files, except that each worker has its own metrics port."""

from dataclasses import replace

from kilonova.config.settings import Settings
from kilonova.errors import ConfigurationError

_HIGHEST_PORT = 65_535


def settings_of(number: int, settings: Settings) -> Settings:
    """Return the settings of a worker. Worker 1 serves metrics on ``metrics_port``, worker 2 on the next port, etc."""
    port = settings.prometheus.metrics_port
    if not port:
        return settings
    return replace(settings, prometheus=replace(settings.prometheus, metrics_port=port + number - 1))


def require_ports(settings: Settings) -> None:
    """Raise ConfigurationError if a metrics port of the workers is no valid port, or is the port of the APIs."""
    first, workers = settings.prometheus.metrics_port, settings.api.workers
    last = first + workers - 1
    if first and workers > 1 and (last > _HIGHEST_PORT or first <= settings.api.bind.port <= last):
        raise ConfigurationError(
            f"[prometheus] metrics_port = {first}: the {workers} control processes of [DEFAULT] osapi_compute_workers "
            f"serve metrics on the ports {first} to {last}, which must be valid and not include the port of [api] bind."
        )
