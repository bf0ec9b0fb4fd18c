#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Run tests with pytest in two processes more than there are cores, since many tests wait for events; KILONOVA_PROCESSES
# sets another number. If few tests fail, they are retried one by one, twice at most. Tests that pass on a retry are
# reported as unsteady, each with the reason of its failure: a time limit on a slow machine, or another reason such as a
# race. The file named by KILONOVA_UNSTEADY gets the same lines: reason, tab, test. Arguments: those of pytest.
# KILONOVA_ONCE=1 disables retries.
set -uo pipefail
cd "$(dirname "$0")/.."
most_again=12
times_again=2
processes=${KILONOVA_PROCESSES:-$(($(nproc) + 2))}
[ "$processes" -le 8 ] || processes=8
cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT
run() { .venv/bin/python -m pytest -q -o cache_dir="$cache" --durations=20 --durations-min=5 "$@"; }
failed() { .venv/bin/python -c 'import json, sys; print(*json.load(open(sys.argv[1])), sep="\n")' "$cache/v/cache/lastfailed" 2>/dev/null; }

# The reason of each failure, from tests/support/failures.py; a test that could not be collected has none there.
with_reasons() {
    awk -F'\t' 'NR == FNR { reason[$2] = $1; next } { print (($0 in reason) ? reason[$0] : "other") "\t" $0 }' \
        "$cache/failures" -
}

touch "$cache/failures"
KILONOVA_FAILURES=$cache/failures run -n "$processes" "$@"
code=$?
unsteady=$(failed)
[ "${KILONOVA_ONCE:-}" != 1 ] && [ -n "$unsteady" ] && [ "$(grep -c . <<<"$unsteady")" -le "$most_again" ] || exit "$code"

for ((again = 1; again <= times_again && code == 1; again++)); do
    printf '\n=== retrying %d failed tests one by one:\n%s\n' "$(failed | grep -c .)" "$(failed)"
    run --last-failed --last-failed-no-failures none "$@" -n 0
    code=$?
done
[ "$code" -eq 0 ] || exit "$code"
unsteady=$(with_reasons <<<"$unsteady")
printf '\n=== UNSTEADY: these failed in parallel with other tests and passed alone; repair them:\n%s\n' "$unsteady"
[ -z "${KILONOVA_UNSTEADY:-}" ] || printf '%s\n' "$unsteady" >>"$KILONOVA_UNSTEADY"
