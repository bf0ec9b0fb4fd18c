# SPDX-License-Identifier: Apache-2.0
"""Long operations as journalled steps: each may be repeated, each can be undone, none is lost with its process.

In: what the API asks, what agents reply. Out: messages to agents, states in the database.
Forbidden here: HTTP, and deciding about hosts (that is ``claims``).
"""
