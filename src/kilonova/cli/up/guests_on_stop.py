# SPDX-License-Identifier: Apache-2.0
"""``--guests-on-stop stop``: shuts down every guest of a libvirtd, as a machine does when it is switched off."""

import logging
import time
from contextlib import suppress

import libvirt

LOG = logging.getLogger(__name__)
_LOOK_EVERY_S = 0.1


def stop_guests(uri: str, timeout_s: float) -> None:
    """Ask every guest to shut down (ACPI), wait, and power off those still running."""
    libvirt.registerErrorHandler(lambda _context, _error: None, None)  # or else libvirt prints errors to standard error
    try:
        connection = libvirt.open(uri)
    except libvirt.libvirtError as error:
        LOG.warning("Cannot shut guests down: no connection to libvirtd: %s", error)
        return
    try:
        for guest in _running(connection):
            with suppress(libvirt.libvirtError):  # a paused guest refuses to shut down
                guest.shutdown()
        deadline = time.monotonic() + timeout_s
        while _running(connection) and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY_S)
        for guest in _running(connection):
            with suppress(libvirt.libvirtError):  # the guest has just stopped
                guest.destroy()
    except libvirt.libvirtError as error:
        LOG.warning("Shutting guests down failed: %s", error)
    finally:
        with suppress(libvirt.libvirtError):
            connection.close()


def _running(connection: libvirt.virConnect) -> list[libvirt.virDomain]:
    return list(connection.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE))
