# SPDX-License-Identifier: Apache-2.0
"""The compute API v2.1, one resource a file: routes, policy rules and views beside their handlers."""
