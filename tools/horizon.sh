#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Use Horizon's compute panels with a browser, against a whole cloud. Arguments: as of pytest.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/browser.sh
tools/peer.sh horizon
export PYTHONPATH=src:tests
exec .venv-horizon/bin/python -m pytest -c tests/horizon/pytest.ini --confcutdir=tests/horizon tests/horizon "$@"
