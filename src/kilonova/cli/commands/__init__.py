# SPDX-License-Identifier: Apache-2.0
"""Commands, one module each, named after the command; ``kilonova.cli.application`` imports only the requested one."""
