# SPDX-License-Identifier: Apache-2.0
"""What some hypervisor drivers can do and others cannot. Making, removing, starting and stopping guests they all can.

A host reports its abilities, so that the scheduler and the API know what it lacks before anything is touched.
"""

from enum import StrEnum


class Ability(StrEnum):
    """One optional ability of a host. Its value is its name in messages, the database and reports: it never changes."""

    ADMIN_PASSWORD = "admin-password"  # noqa: S105 - a name
    """Set the password of the administrator inside a guest that runs."""

    COLD_MIGRATE = "cold-migrate"
    """Be source and destination of a resize or cold migration between two hosts."""

    CONSOLE_OUTPUT = "console-output"
    """Return what a guest has written to its console."""

    CONSOLES = "consoles"
    """Tell where a console of a guest is reached: VNC, SPICE or the serial port."""

    CRASH_DUMP = "crash-dump"
    """Send a guest a non-maskable interrupt."""

    DIAGNOSTICS = "diagnostics"
    """Tell what a guest uses of its CPUs, memory, disks and network interfaces."""

    IMAGE_CACHE = "image-cache"
    """Keep images, fetch them before a guest needs them, and list them."""

    LIVE_MIGRATE = "live-migrate"
    """Be source and destination of a live migration."""

    PAUSE = "pause"
    """Pause and unpause a guest."""

    REBOOT = "reboot"
    """Reboot a guest, softly and hard."""

    REBUILD = "rebuild"
    """Make a guest anew in its place, and make the guest of an evacuated server."""

    RESCUE = "rescue"
    """Start a guest from another image with its own disks attached, and go back."""

    RESIZE_SAME_HOST = "resize-same-host"
    """Resize a guest on the host where it is; confirm or revert that."""

    SNAPSHOT = "snapshot"
    """Make an image of a guest's disk: for createImage, backups and shelving."""

    SUSPEND = "suspend"
    """Suspend a guest to disk and resume it."""
