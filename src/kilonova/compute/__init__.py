# SPDX-License-Identifier: Apache-2.0
"""The agent of a host. In: messages. Out: replies, reports, heartbeats.

Forbidden here: the database and the API; the rest of the cloud is reached through ``messaging`` alone.
"""
