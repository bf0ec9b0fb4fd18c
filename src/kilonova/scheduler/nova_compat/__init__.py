# SPDX-License-Identifier: Apache-2.0
"""Rules written Nova's way: what they see of a host and of a request, and how the engine runs them.

In: the host table and a request. Out: views with the names and shapes of Nova; filters and weighers for the engine.
Forbidden here: rules.
"""
