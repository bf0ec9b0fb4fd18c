#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Create .venv-networks: Neutron for `kilonova up --networks`. It has the packages of requirements-networks.lock and sees
# those of .venv (created by tools/setup.sh), which Neutron needs too. Does nothing if the environment is up to date.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=.venv-networks lock=requirements-networks.lock

exec 9<"$lock"
flock 9 # concurrent runs would corrupt the environment
[ -x .venv/bin/python ] || { printf 'networks: there is no .venv; run tools/setup.sh first\n' >&2; exit 1; }
wanted="$PWD $(.venv/bin/python -V) $(sha256sum <"$lock")"
if [ -f "$venv/.stamp" ] && [ "$(<"$venv/.stamp")" = "$wanted" ]; then exit 0; fi

say() { printf 'networks: %s\n' "$*"; }
total=$(grep -c '==' "$lock")
say "installing Neutron and $((total - 1)) other packages into $venv (130 MB; about ten seconds)"
.venv/bin/python -m venv --clear --without-pip "$venv"
own=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
shared=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
printf 'import site; site.addsitedir("%s")\n' "$shared" >"$own/packages-of-kilonova.pth"

export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_ROOT_USER_ACTION=ignore PYTHONUNBUFFERED=1
log=$venv/setup.log
# As in tools/setup.sh: requirements.hashes has the wheels of these platforms.
packages=(-r "$lock")
case "$(.venv/bin/python -c 'import platform; print(platform.machine(), *platform.python_version_tuple()[:2], sep="-")')" in
    x86_64-3-11 | x86_64-3-12 | x86_64-3-13)
        awk 'NR == FNR { wanted[$1]; next } /^[^ #]/ { keep = ($1 in wanted) } keep' "$lock" requirements.hashes >"$venv/hashed.txt"
        if [ "$(grep -c '==' "$venv/hashed.txt")" -eq "$total" ]; then
            packages=(--require-hashes -r "$venv/hashed.txt")
        else
            say "installing without hashes: requirements.hashes lacks some packages (make lock adds them)"
        fi
        ;;
    *) say "installing without hashes: none are kept for this platform" ;;
esac
if ! .venv/bin/python -m pip --python "$venv/bin/python" install --no-deps --no-compile --retries 5 "${packages[@]}" 2>&1 </dev/null |
    tee "$log" | awk -v total="$total" '
        /^Collecting/ { n++; if (n % 5 == 0) print "networks:   " n " of " total " fetched"; fflush() }
        /^Installing collected/ { print "networks:   unpacking"; fflush() }'; then
    tail -n 15 "$log" >&2
    printf 'networks: pip failed; see the log %s\n' "$log" >&2
    exit 1
fi
say "compiling"
"$venv/bin/python" -m compileall -q -j 0 "$own" >>"$log" 2>&1 || true # on all cores; files for other Python versions fail
printf '%s' "$wanted" >"$venv/.stamp"
say "done"
