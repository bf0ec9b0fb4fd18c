# SPDX-License-Identifier: Apache-2.0
"""Typed request bodies of the Compute API, one module per resource."""
