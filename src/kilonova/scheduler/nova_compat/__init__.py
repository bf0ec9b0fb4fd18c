# SPDX-License-Identifier: Apache-2.0
"""Compatibility with Nova-style filters and weighers: their views of hosts and requests, and adapters for the engine.

In: the host table and a request. Out: views with Nova's names and types; filters and weighers for the engine.
This package must not define scheduling rules.
"""
