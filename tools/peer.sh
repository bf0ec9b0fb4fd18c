#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Create .venv-NAME from requirements-NAME.lock: another project's software with which Kilonova is tested or compared.
# NAME is nova, placement, conformance, horizon or tempest. Does nothing if the environment is up to date.
set -euo pipefail
cd "$(dirname "$0")/.."
name=${1:?name one of: nova, placement, conformance, horizon or tempest}
venv=.venv-$name

exec 9<"requirements-$name.lock"
flock 9 # concurrent runs would corrupt the environment
wanted="$PWD $(sha256sum <"requirements-$name.lock")"
if [ -f "$venv/.stamp" ] && [ "$(<"$venv/.stamp")" = "$wanted" ]; then exit 0; fi

export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_ROOT_USER_ACTION=ignore
printf '%s: installing %s package(s)\n' "$venv" "$(grep -c '==' "requirements-$name.lock")"
.venv/bin/python -m venv --clear "$venv"
if ! "$venv/bin/python" -m pip install --no-deps --no-compile --retries 5 -r "requirements-$name.lock" >"$venv/setup.log" 2>&1 </dev/null; then
    tail -n 15 "$venv/setup.log" >&2
    printf '%s: pip failed; see the log %s\n' "$venv" "$venv/setup.log" >&2
    exit 1
fi
printf '%s' "$wanted" >"$venv/.stamp"
