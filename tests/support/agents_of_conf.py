# SPDX-License-Identifier: Apache-2.0
"""Agents as a configuration file defines them."""

from collections.abc import Callable

from kilonova.compute.agent import Agent
from kilonova.model.instance import GuestSpec

#: Text of the file → its agents.
Load = Callable[[str], tuple[Agent, ...]]
GUEST = GuestSpec(
    uuid="8a5b6c1c-0000-4000-8000-000000000000", name="vm", hostname="vm", vcpus=1, memory_mib=512, root_gib=1
)
