# SPDX-License-Identifier: Apache-2.0
"""Scenarios, as used by commands: finding their files, comparing them with the running cloud, and playing them."""
