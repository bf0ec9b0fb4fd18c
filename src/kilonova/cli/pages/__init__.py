# SPDX-License-Identifier: Apache-2.0
"""Pages of the documentation that are generated from the code (``make docs``)."""
