# SPDX-License-Identifier: Apache-2.0
"""What hypervisor drivers do, tried call by call: done, repeated, of a guest that is not there, failing, slow.

A module that tests a driver has a fixture ``place``, a :class:`support.driver_places.Place` with no guests, and a
subclass of :class:`~support.driver_contracts.core.CoreContract` and of the contract of each ability that its driver
has; :class:`~support.driver_contracts.whole.DriverContract` is all of them.
"""
