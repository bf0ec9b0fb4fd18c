# SPDX-License-Identifier: Apache-2.0
"""The operator API v1: Kilonova's own, for administrators. What the scheduler decided, and why."""
