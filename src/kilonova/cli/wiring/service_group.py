# SPDX-License-Identifier: Apache-2.0
"""``[DEFAULT] servicegroup_driver``: selects the driver that declares hosts down."""

import logging

from kilonova.cli.wiring.dotted_paths import driver_class, made
from kilonova.conductor.hosts.service_group import HostStates
from kilonova.config.compute import HEARTBEATS, MEMCACHED
from kilonova.config.settings import Settings

LOG = logging.getLogger(__name__)
GROUP = "kilonova.servicegroup.drivers"
_OPTION = "[DEFAULT] servicegroup_driver"


def host_states(settings: Settings) -> HostStates | None:
    """Return the configured driver; None if heartbeats alone decide. Raises: ConfigurationError."""
    name = settings.compute.servicegroup_driver.strip()
    if name == MEMCACHED:
        LOG.warning("%s = %s has the effect of %s: heartbeats are in the database.", _OPTION, MEMCACHED, HEARTBEATS)
    if name in {HEARTBEATS, MEMCACHED}:
        return None
    cls = driver_class(_OPTION, name, GROUP, (HEARTBEATS,), ("states",))
    driver: HostStates = made(_OPTION, cls, **settings.conf.options_of(cls))
    return driver
