# SPDX-License-Identifier: Apache-2.0
"""Compute API v2.1, one module per resource: routes, policy rules and views next to their handlers."""
