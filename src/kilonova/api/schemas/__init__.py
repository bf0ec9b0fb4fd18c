# SPDX-License-Identifier: Apache-2.0
"""Fragments of JSON Schemas that several APIs share. The schemas of each API are in its own package ``schemas``."""
