#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Print the folder of noVNC: that of Debian's installed package, or .novnc/, into which this script unpacks the package
# without installing it (its dependency node.js is not needed in a browser).
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'noVNC: %s\n' "$*" >&2; }
fail() { printf 'noVNC: %s\n' "$*" >&2; exit 1; }

installed=/usr/share/novnc unpacked=.novnc
if [ -f "$installed/vnc_lite.html" ]; then printf '%s\n' "$installed"; exit 0; fi
if [ ! -f "$unpacked/usr/share/novnc/vnc_lite.html" ]; then
    command -v apt-get >/dev/null || fail "please install noVNC to $installed; only Debian's apt-get is known here"
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    chmod 755 "$work"
    say "fetching Debian's package"
    if ! (cd "$work" && apt-get -q download novnc) >"$work/log" 2>&1 </dev/null; then
        root=()
        if [ "$(id -u)" -ne 0 ]; then root=(sudo -n); fi
        if ! { "${root[@]}" apt-get -q -o DPkg::Lock::Timeout=300 update && cd "$work" && apt-get -q download novnc; } \
            >>"$work/log" 2>&1 </dev/null; then
            tail -n 5 "$work/log" >&2
            fail "apt-get could not fetch it; install the package novnc"
        fi
        cd - >/dev/null
    fi
    mkdir -p "$unpacked"
    dpkg-deb -x "$work"/novnc_*.deb "$unpacked"
fi
printf '%s\n' "$PWD/$unpacked/usr/share/novnc"
