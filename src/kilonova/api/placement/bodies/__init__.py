# SPDX-License-Identifier: Apache-2.0
"""Typed request bodies of Placement, one module per resource."""
