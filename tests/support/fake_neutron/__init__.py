# SPDX-License-Identifier: Apache-2.0
"""Neutron in memory, for tests: `FakeNeutron` is a NetworkClient without HTTP."""

from support.fake_neutron.client import FakeNeutron
from support.fake_neutron.faults import Fault

__all__ = ["FakeNeutron", "Fault"]
