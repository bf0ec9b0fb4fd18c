# SPDX-License-Identifier: Apache-2.0
"""Operator API v1: Kilonova's own API for administrators, such as scheduler decisions with their reasons."""
