# SPDX-License-Identifier: Apache-2.0
"""Explanations of scheduling decisions: reasons per host, nearest misses, dry runs, and settings that no rule reads."""
