# SPDX-License-Identifier: Apache-2.0
"""The compute agent of a host. In: messages. Out: replies, reports, heartbeats.

This package must import neither the database nor the API: an agent reaches other processes through ``messaging`` only.
"""
