# SPDX-License-Identifier: Apache-2.0
"""Keystone client, which checks that a project exists and reads unified limits. It does not validate tokens."""
