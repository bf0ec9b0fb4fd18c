# SPDX-License-Identifier: Apache-2.0
"""The Placement API 1.0 … 1.39, one resource a file: routes, policy rules and views beside their handlers."""
