# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas of the Placement API, and its own checks of values."""
