# SPDX-License-Identifier: Apache-2.0
"""Hosts as the conductor sees them: agents, heartbeats, service liveness, reported guests."""
