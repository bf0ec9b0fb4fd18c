# SPDX-License-Identifier: Apache-2.0
"""``--guests-on-stop stop``: shut down every guest of a libvirtd, as a machine does that is switched off."""

import logging
import time
from contextlib import suppress

import libvirt

LOG = logging.getLogger(__name__)
_LOOK_EVERY_S = 0.1


def stop_guests(uri: str, patience_s: float) -> None:
    """Press the power button of every guest, wait, and power off those that still run then."""
    libvirt.registerErrorHandler(lambda _context, _error: None, None)  # else it writes to standard error by itself
    try:
        connection = libvirt.open(uri)
    except libvirt.libvirtError as error:
        LOG.warning("libvirtd cannot be asked to shut guests down: %s", error)
        return
    try:
        for guest in _running(connection):
            with suppress(libvirt.libvirtError):  # a guest that is paused
                guest.shutdown()
        deadline = time.monotonic() + patience_s
        while _running(connection) and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY_S)
        for guest in _running(connection):
            with suppress(libvirt.libvirtError):  # it has just ended
                guest.destroy()
    except libvirt.libvirtError as error:
        LOG.warning("Guests could not be shut down: %s", error)
    finally:
        with suppress(libvirt.libvirtError):
            connection.close()


def _running(connection: libvirt.virConnect) -> list[libvirt.virDomain]:
    return list(connection.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE))
