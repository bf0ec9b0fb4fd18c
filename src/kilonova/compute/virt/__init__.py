# SPDX-License-Identifier: Apache-2.0
"""Hypervisor drivers. ``base`` is their interface; no driver imports another."""
