# SPDX-License-Identifier: Apache-2.0
"""Why a decision is as it is, and what would change it: reasons, nearest misses, trials, data that nothing reads."""
