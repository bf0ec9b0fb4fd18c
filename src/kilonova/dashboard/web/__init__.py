# SPDX-License-Identifier: Apache-2.0
"""What all pages share: sessions and their protection, templates, scripts, styles and live updates."""
