# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas of the Placement API, and validators of uuids and names."""
