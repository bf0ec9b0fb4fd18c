# SPDX-License-Identifier: Apache-2.0
"""Replacement of ``nova.scheduler.weights`` for Nova-style weighers: ``from kilonova.scheduler import weights``."""

from kilonova.scheduler.weighers.base import BaseHostWeigher, WeighedHost

__all__ = ["BaseHostWeigher", "WeighedHost"]
