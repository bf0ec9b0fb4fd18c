# SPDX-License-Identifier: Apache-2.0
"""Typed messages between the conductor and the agents, and the buses that carry them.

A message names its workflow, step and attempt; a late one is dropped by whoever gets it. Forbidden here: the database.
"""
