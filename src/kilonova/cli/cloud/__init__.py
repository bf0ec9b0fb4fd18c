# SPDX-License-Identifier: Apache-2.0
"""Access of commands to a running cloud: connection, shared options, names of servers, and printing."""
