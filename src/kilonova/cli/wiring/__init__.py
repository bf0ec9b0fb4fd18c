# SPDX-License-Identifier: Apache-2.0
"""The composition root: what each kind of process is made of, from its settings."""
