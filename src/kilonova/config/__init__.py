# SPDX-License-Identifier: Apache-2.0
"""Settings: frozen dataclasses, which ``cli/`` reads from oslo.config files once and passes to the other packages.

Names and defaults are those of nova.conf; help texts mark the options that are Kilonova's own. Each section is a
dataclass in a module of its own; :class:`~kilonova.config.settings.Settings` has a field for it.
"""
