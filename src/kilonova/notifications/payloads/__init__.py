# SPDX-License-Identifier: Apache-2.0
"""Payloads: what versioned notifications say (frozen dataclasses), and in ``unversioned.py`` what the older ones do."""
