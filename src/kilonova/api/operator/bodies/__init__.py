# SPDX-License-Identifier: Apache-2.0
"""Typed request bodies of the operator API, one module per resource."""
