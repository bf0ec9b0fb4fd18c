# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas of the compute API, one module per resource."""
