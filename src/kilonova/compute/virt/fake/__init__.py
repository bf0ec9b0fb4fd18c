# SPDX-License-Identifier: Apache-2.0
"""A simulated hypervisor. In: hosts of a scenario. Out: guests, which are only records in a file."""

from kilonova.compute.virt.fake.driver import FakeDriver

__all__ = ["FakeDriver"]
