# SPDX-License-Identifier: Apache-2.0
"""Consistency checks of the database: each check finds one kind of inconsistency and provides its repair."""
