#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Install Debian packages, showing progress, without starting their services. Needs root, or sudo without a password.
# debian_packages.sh WHAT-FOR HOW-LONG PACKAGE...
set -euo pipefail
what=$1 how_long=$2
shift 2

say() { printf '%s: %s\n' "$what" "$*"; }
fail() { printf '%s: %s\n' "$what" "$*" >&2; exit 1; }

command -v apt-get >/dev/null || fail "please install what Debian calls $*; only Debian's apt-get is known here"
root=()
if [ "$(id -u)" -ne 0 ]; then
    root=(sudo -n)
    "${root[@]}" true 2>/dev/null || fail "please run this as root, then try again: apt-get install --no-install-recommends $*"
fi

exec 8<"$0"
flock 8 # apt-get waits for another apt-get that installs, but not for one that updates

# Debian runs this script before it starts a new service; exit code 101 forbids the start.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' | "${root[@]}" tee "$policy" >/dev/null
    "${root[@]}" chmod 755 "$policy"
    trap '"${root[@]}" rm -f "$policy"' EXIT
fi

say "installing $* ($how_long)"
apt=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300)
if ! { "${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends "$@"; } </dev/null |
    awk -v what="$what" '/^(Get:|Unpacking|Setting up)/ { print what ":   " $1 " " $2 " " $3; fflush() }'; then
    fail "apt-get could not install $*"
fi
say "done"
