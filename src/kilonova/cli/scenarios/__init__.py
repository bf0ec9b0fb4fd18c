# SPDX-License-Identifier: Apache-2.0
"""Scenarios as commands use them: found, compared with the running cloud, played."""
