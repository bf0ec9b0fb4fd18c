# SPDX-License-Identifier: Apache-2.0
"""What the conductor knows of hosts: agents, heartbeats, service liveness, reported guests."""
