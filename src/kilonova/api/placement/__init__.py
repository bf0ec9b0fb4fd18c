# SPDX-License-Identifier: Apache-2.0
"""Placement API 1.0 … 1.39, one module per resource: routes, policy rules and views next to their handlers."""
