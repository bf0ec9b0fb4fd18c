# SPDX-License-Identifier: Apache-2.0
"""Contract tests of hypervisor drivers: normal calls, repeated calls, absent guests, failures and slow operations.

A module that tests a driver has a fixture ``place``, a :class:`support.driver_places.Place` with no guests, and
subclasses of :class:`~support.driver_contracts.core.CoreContract` and of the contract of each ability of its driver.
:class:`~support.driver_contracts.whole.DriverContract` combines all of them.
"""
