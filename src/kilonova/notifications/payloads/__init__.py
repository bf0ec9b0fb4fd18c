# SPDX-License-Identifier: Apache-2.0
"""Payloads of versioned notifications, as frozen dataclasses; ``unversioned.py`` builds unversioned payloads."""
