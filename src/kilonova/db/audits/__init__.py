# SPDX-License-Identifier: Apache-2.0
"""Consistency checks: each finds one kind of inconsistency and knows its repair."""
