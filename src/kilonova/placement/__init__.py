# SPDX-License-Identifier: Apache-2.0
"""Placement's rules as pure functions: from provider columns and a query they compute allocation candidates.

Forbidden here: SQL, HTTP, clocks, logging, configuration. The package imports only numpy and ``kilonova.model``.
"""
