# SPDX-License-Identifier: Apache-2.0
"""Access of commands to a running cloud: connection, shared options, lookup of servers by name, and printing."""
