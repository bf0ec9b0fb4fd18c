# SPDX-License-Identifier: Apache-2.0
"""``--guests-on-stop stop``: shuts down every guest of a libvirtd, as a host does when it is switched off."""

import logging
import time
from contextlib import suppress

import libvirt

LOG = logging.getLogger(__name__)
_LOOK_EVERY_S = 0.1


def stop_guests(uri: str, timeout_s: float) -> None:
    """Shut every guest down by ACPI, wait up to ``timeout_s`` seconds, and power off the guests that still run."""
    # Without this handler, libvirt would print errors to standard error.
    libvirt.registerErrorHandler(lambda _context, _error: None, None)
    try:
        connection = libvirt.open(uri)
    except libvirt.libvirtError as error:
        LOG.warning("Guests cannot be shut down, because libvirtd cannot be reached: %s", error)
        return
    try:
        for guest in _running(connection):
            with suppress(libvirt.libvirtError):  # a paused guest cannot shut down
                guest.shutdown()
        deadline = time.monotonic() + timeout_s
        while _running(connection) and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY_S)
        for guest in _running(connection):
            with suppress(libvirt.libvirtError):  # the guest may have just stopped
                guest.destroy()
    except libvirt.libvirtError as error:
        LOG.warning("Shutting guests down failed: %s", error)
    finally:
        with suppress(libvirt.libvirtError):
            connection.close()


def _running(connection: libvirt.virConnect) -> list[libvirt.virDomain]:
    return list(connection.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE))
