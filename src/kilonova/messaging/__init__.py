# SPDX-License-Identifier: Apache-2.0
"""Typed messages between the conductor and the agents, and the buses that carry them.

A message names its workflow, step and attempt. An agent carries a step out once, however often its message comes; the
conductor drops a reply that it does not wait for any more. Forbidden here: the database.
"""
