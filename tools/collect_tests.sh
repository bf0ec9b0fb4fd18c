#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Import all tests, in one process. Tests that cannot be imported are reported at once, and the parallel processes that run
# the tests later need not compile all modules each.
set -uo pipefail
cd "$(dirname "$0")/.."
if ! out=$(.venv/bin/python -m pytest -q --collect-only tests 2>&1); then
    grep -v '^tests/[^ ]*::' <<<"$out"
    exit 1
fi
tail -n 1 <<<"$out"
