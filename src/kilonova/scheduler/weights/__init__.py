# SPDX-License-Identifier: Apache-2.0
"""Weighers written Nova's way find their base here: ``from kilonova.scheduler import weights`` is all they change."""

from kilonova.scheduler.weighers.base import BaseHostWeigher, WeighedHost

__all__ = ["BaseHostWeigher", "WeighedHost"]
