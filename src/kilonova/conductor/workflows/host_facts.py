# SPDX-License-Identifier: Apache-2.0
"""Facts of workflows that need only the host of the guest."""

from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class HostFacts:
    """Facts with only ``host``: the host of the guest."""

    host: str


@dataclass(frozen=True, slots=True)
class NetworkedHostFacts:
    """Facts of a workflow that also changes ports. ``networks``: the server may have interfaces."""

    host: str
    networks: bool = False
