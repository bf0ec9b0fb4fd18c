# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas of request bodies and queries as data, one module per resource, each by microversion."""
