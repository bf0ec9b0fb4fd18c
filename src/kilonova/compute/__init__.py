# SPDX-License-Identifier: Apache-2.0
"""The compute agent of a host. In: messages. Out: replies, reports, heartbeats.

Forbidden here: the database and the API; the agent reaches the rest of the cloud through ``messaging`` alone.
"""
