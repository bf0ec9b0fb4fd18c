# SPDX-License-Identifier: Apache-2.0
"""Convert the results stored by stestr to JSON: test → status and reason. Runs in Tempest's own environment.

stestr last --subunit | .venv-tempest/bin/python read_results.py
"""

import json
import sys
from typing import Any

import subunit
import testtools

_REASONS = ("reason", "traceback")
_LAST_CHARACTERS = 3000


def main() -> None:
    found: dict[str, Any] = {}

    def note(test: dict[str, Any]) -> None:
        details = {name: text.as_text() for name, text in test["details"].items() if name.startswith(_REASONS)}
        seconds = [moment for moment in test["timestamps"] if moment is not None]
        found[test["id"]] = {
            "status": test["status"],
            "why": "\n".join(details.values())[-_LAST_CHARACTERS:].strip(),
            "seconds": (seconds[-1] - seconds[0]).total_seconds() if len(seconds) == 2 else 0.0,
        }

    results = testtools.StreamToDict(note)
    results.startTestRun()
    subunit.ByteStreamToStreamResult(sys.stdin.buffer).run(results)
    results.stopTestRun()
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
