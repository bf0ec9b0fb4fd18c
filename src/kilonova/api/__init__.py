# SPDX-License-Identifier: Apache-2.0
"""The HTTP APIs. Common code does routing, schemas, microversions and faults, so that handlers contain none of these.

Forbidden in this package: SQL, scheduling, messages to agents. This package and ``kilonova.compute`` do not import each
other.
"""
