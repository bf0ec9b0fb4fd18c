# SPDX-License-Identifier: Apache-2.0
"""Optional abilities of hypervisor drivers. Every driver can create, remove, start and stop guests.

A host reports its abilities, so the scheduler and the API refuse an unsupported action before it starts.
"""

from enum import StrEnum


class Ability(StrEnum):
    """An optional ability of a host. The values must never change: messages, the database and reports contain them."""

    ADMIN_PASSWORD = "admin-password"  # noqa: S105 - a name
    """Set the administrator password inside a running guest."""

    ATTACH_INTERFACE = "attach-interface"
    """Attach network interfaces to a guest and detach them, whether it runs or not."""

    COLD_MIGRATE = "cold-migrate"
    """Be source and destination of a resize or cold migration between two hosts."""

    CONSOLE_OUTPUT = "console-output"
    """Return a guest's console output."""

    CONSOLES = "consoles"
    """Return the address of a guest's VNC, SPICE or serial console."""

    CRASH_DUMP = "crash-dump"
    """Send a guest a non-maskable interrupt."""

    DIAGNOSTICS = "diagnostics"
    """Return usage figures of a guest's CPUs, memory, disks and network interfaces."""

    IMAGE_CACHE = "image-cache"
    """Cache images, fetch images in advance, and list the cached images."""

    LIVE_MIGRATE = "live-migrate"
    """Be source and destination of a live migration."""

    PAUSE = "pause"
    """Pause and unpause a guest."""

    REBOOT = "reboot"
    """Reboot a guest, soft and hard."""

    REBUILD = "rebuild"
    """Recreate a guest on its host, and create the guest of an evacuated server."""

    RESCUE = "rescue"
    """Rescue: start a guest from a rescue image with its own disks attached. Unrescue: start it from its own disks."""

    RESIZE_SAME_HOST = "resize-same-host"
    """Resize a guest on its current host; confirm or revert such a resize."""

    SNAPSHOT = "snapshot"
    """Create an image of a guest's disk, for createImage, createBackup and shelve."""

    SUSPEND = "suspend"
    """Suspend a guest to disk and resume it."""
