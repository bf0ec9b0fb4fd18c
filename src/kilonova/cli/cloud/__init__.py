# SPDX-License-Identifier: Apache-2.0
"""A running cloud as commands reach it: connection, shared options, names, and printing."""
