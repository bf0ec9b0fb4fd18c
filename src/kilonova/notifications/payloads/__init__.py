# SPDX-License-Identifier: Apache-2.0
"""Payloads of versioned notifications (frozen dataclasses) and, in ``unversioned.py``, of unversioned ones."""
