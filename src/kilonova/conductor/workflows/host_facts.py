# SPDX-License-Identifier: Apache-2.0
"""What most actions on a server have to remember: the host where its guest is."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HostFacts:
    """``host``: where the guest is."""

    host: str
