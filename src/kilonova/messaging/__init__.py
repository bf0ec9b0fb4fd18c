# SPDX-License-Identifier: Apache-2.0
"""Typed messages between the conductor and the agents, and the buses that carry them.

A message names its workflow, step and attempt. Messages may be duplicated: an agent carries out each step once, and
the conductor drops a reply that no workflow waits for. This package must not access the database.
"""
