#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Run a command with its temporary files in /dev/shm if that has enough space: tests flush to disk very often, and their
# files need not survive a power failure. Otherwise, and if TMPDIR is set, run the command unchanged.
set -uo pipefail
room_kib=$((4 << 20)) memory_kib=$((6 << 20))
place=/dev/shm

for left in "$place"/kilonova-tests-*-*; do # left over by killed processes
    owner=${left#"$place"/kilonova-tests-} owner=${owner%%-*}
    [ -d "$left" ] && [ ! -e "/proc/$owner" ] && rm -rf "$left"
done
room=$(df --output=avail -k "$place" 2>/dev/null | tail -n 1)
memory=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo 2>/dev/null)
if [ -n "${TMPDIR:-}" ] || [ ! -w "$place" ] || [ "${room:-0}" -lt "$room_kib" ] || [ "${memory:-0}" -lt "$memory_kib" ]; then
    exec "$@"
fi
TMPDIR=$(mktemp -d "$place/kilonova-tests-$$-XXXXXX") || exit 1
export TMPDIR
chmod 755 "$TMPDIR" # the database servers of tests run as other users
trap 'rm -rf "$TMPDIR"' EXIT
"$@"
