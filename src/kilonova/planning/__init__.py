# SPDX-License-Identifier: Apache-2.0
"""Answers about copies of the cloud: how many more servers fit, as the scheduler would place them."""
