# SPDX-License-Identifier: Apache-2.0
"""Benchmarks. Results are medians and ratios of several rounds, never a single run."""
