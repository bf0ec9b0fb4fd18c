# SPDX-License-Identifier: Apache-2.0
"""Placement's rules as pure functions: provider columns and a query in, allocation candidates out.

Forbidden here: SQL, HTTP, clocks, logging, configuration. Imports numpy and ``kilonova.model`` only.
"""
