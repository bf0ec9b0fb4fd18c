# SPDX-License-Identifier: Apache-2.0
"""What the dashboard reads from the cloud: the client of the APIs, and the map of hosts."""
