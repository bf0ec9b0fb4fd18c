# SPDX-License-Identifier: Apache-2.0
"""Keystone client: checks that a project exists, reads unified limits, and looks up a token for ``kilonova policy``.

keystonemiddleware validates the tokens of API requests.
"""
