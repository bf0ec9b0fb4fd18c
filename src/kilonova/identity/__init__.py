# SPDX-License-Identifier: Apache-2.0
"""Keystone client beside token validation: checks that a project exists, and reads unified limits."""
