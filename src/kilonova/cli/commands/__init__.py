# SPDX-License-Identifier: Apache-2.0
"""Commands. Each module is named after its command; ``kilonova.cli.application`` imports only the requested module."""
