#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Create .venv with all packages of requirements.lock and the project itself, editable. Does nothing if it is up to date.
# With --empty it only creates .venv, from which tools/peer.sh and tools/networks.sh can create others.
set -euo pipefail
cd "$(dirname "$0")/.."

exec 9<requirements.lock
flock 9 # concurrent runs would corrupt .venv
place=$PWD lock=$(sha256sum <requirements.lock) project=$(sha256sum <pyproject.toml)
stamped() { [ -f ".venv/.stamp-$1" ] && [ "$(<".venv/.stamp-$1")" = "$2" ]; }
stamp() { printf '%s' "$2" >".venv/.stamp-$1"; }
if stamped place "$place" && stamped lock "$lock" && stamped project "$project"; then exit 0; fi

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
python=""
for candidate in ${PYTHON:-python3 python3.11 python3.12 python3.13}; do
    if new_enough "$candidate"; then python=$candidate; break; fi
done
[ -n "$python" ] || fail "Python 3.11 or newer is needed; name it with PYTHON=/path/to/python3"

if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    say "$python has no venv module, installing python3-venv"
    tools/debian_packages.sh setup 'some seconds' python3-venv </dev/null ||
        fail "could not install python3-venv; install the venv module of $python and try again"
fi

if ! stamped place "$place" || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    say "creating .venv with $("$python" --version)"
    "$python" -m venv --clear .venv # a virtual environment cannot be moved
    stamp place "$place"
fi
if [ "${1:-}" = --empty ]; then exit 0; fi

export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_ROOT_USER_ACTION=ignore PYTHONUNBUFFERED=1
if ! stamped lock "$lock"; then
    total=$(grep -c '==' requirements.lock)
    say "installing $total packages (475 MB; about a minute)"
    log=.venv/setup.log
    : >"$log"
    install() {
        set +e
        .venv/bin/python -m pip install --no-deps --no-compile --retries 5 "$@" 2>&1 </dev/null | tee -a "$log" | awk -v total="$total" '
            /^(Collecting|Requirement already satisfied)/ { n++; if (n % 20 == 0 || n == total) print "setup:   " n " of " total " fetched"; fflush() }
            /^Installing collected/ { print "setup:   unpacking"; fflush() }'
        result=${PIPESTATUS[0]}
        set -e
        if [ "$result" -ne 0 ]; then
            tail -n 15 "$log" >&2
            fail "pip failed; see the log $log"
        fi
    }
    # Packages in requirements.hashes are verified; the others are installed without verification, and listed.
    here="$(.venv/bin/python -c 'import platform; print(platform.machine(), *platform.python_version_tuple()[:2], sep="-")')"
    case $here in
        x86_64-3-11 | x86_64-3-12 | x86_64-3-13) hashes=requirements.hashes ;;
        *) hashes=/dev/null && say "no hashes are kept for $here" ;;
    esac
    awk 'NR == FNR { wanted[$1]; next } /^[^ #]/ { keep = ($1 in wanted) } keep' requirements.lock "$hashes" >.venv/hashed.txt
    awk 'FILENAME == ARGV[1] { known[$1]; next } /==/ && !($1 in known)' "$hashes" requirements.lock >.venv/unhashed.txt
    if [ -s .venv/hashed.txt ]; then install --require-hashes -r .venv/hashed.txt; fi
    if [ -s .venv/unhashed.txt ]; then
        say "installing without a hash (make lock adds hashes): $(tr '\n' ' ' <.venv/unhashed.txt)"
        install -r .venv/unhashed.txt
    fi
    say "compiling"
    .venv/bin/python -m compileall -q -j 0 .venv/lib >>"$log" 2>&1 || true # on all cores; files for other Python versions fail
    stamp lock "$lock"
fi

say "installing kilonova itself"
.venv/bin/python -m pip install -q --no-deps --no-build-isolation -e . </dev/null
stamp project "$project"
say "done"
