# SPDX-License-Identifier: Apache-2.0
"""How fast it is, measured: medians and ratios, never one lucky run."""
