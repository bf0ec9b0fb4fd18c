# SPDX-License-Identifier: Apache-2.0
"""The decision engine: the chain of rules, the ranking, and multi-server requests. Pure functions without I/O."""
