# SPDX-License-Identifier: Apache-2.0
"""The conductor runs long operations as journalled workflows, which survive a crash and can be rolled back.

In: calls of the API, messages of agents. Out: messages to agents, states in the database.
Forbidden here: HTTP, and scheduling decisions (package ``claims`` makes them).
"""
