# SPDX-License-Identifier: Apache-2.0
"""Scenarios for commands: lookup, comparison with the running cloud, and playing."""
