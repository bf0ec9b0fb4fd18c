# SPDX-License-Identifier: Apache-2.0
"""A simulated hypervisor. In: hosts of a scenario. Out: guests in a file. It runs no guests and copies no memory."""

from kilonova.compute.virt.fake.driver import FakeDriver

__all__ = ["FakeDriver"]
