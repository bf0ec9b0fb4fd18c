# SPDX-License-Identifier: Apache-2.0
"""Values of the options that describe hosts of real guests."""

from enum import StrEnum


class Hypervisor(StrEnum):
    """Kinds of hypervisors of a cloud."""

    SIMULATED = "simulated"
    LIBVIRT = "libvirt"


class GuestsOnStop(StrEnum):
    """Treatment of real guests when the cloud is stopped."""

    KEEP = "keep"
    STOP = "stop"
