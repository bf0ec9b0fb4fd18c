# SPDX-License-Identifier: Apache-2.0
"""Write requirements.hashes: the hashes that pip must find for each package of the locks.

Queries pip's configured package index through pip, without downloading wheels. A package that is compiled here must be
able to report its version: libvirt-python needs libvirt's pkg-config file. Run by ``make lock``.
"""

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

LOCKS = tuple(Path(f"requirements{name}.lock") for name in ("", "-libvirt", "-networks"))
HASHES = Path("requirements.hashes")
#: Python versions whose wheels are listed besides those of the running interpreter.
PYTHONS = ("3.11", "3.12", "3.13")
_PIP = (sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--no-deps", "--quiet")


def main() -> None:
    lines = [line for lock in LOCKS for line in lock.read_text(encoding="utf-8").splitlines() if "==" in line]
    found: dict[str, set[str]] = defaultdict(set)
    print(f"lock: {len(lines)} packages for this Python", flush=True)
    built = add_hashes(found, lines)
    wheels = [line for line in lines if normal(line.partition("==")[0]) in built]
    for version in PYTHONS:
        if version != f"{sys.version_info.major}.{sys.version_info.minor}":
            print(f"lock: {len(wheels)} packages for Python {version}", flush=True)
            add_hashes(found, wheels, "--only-binary=:all:", f"--python-version={version}", "--target=unused")
    names = ", ".join(map(str, LOCKS))
    text = [f"# Written by `make lock` from {names}; tools/ checks with it what it installs."]
    for line in lines:
        text.append(" \\\n    ".join([line, *(f"--hash=sha256:{each}" for each in sorted(found[normal_line(line)]))]))
    HASHES.write_text("\n".join(text) + "\n", encoding="utf-8")


def add_hashes(found: dict[str, set[str]], lines: list[str], *options: str) -> set[str]:
    """Add the hashes of the files that pip would install; return the packages whose wheels are platform-specific."""
    command = [*_PIP, "--report=-", *options, *lines]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    built = set()
    for item in report["install"]:
        name = normal(item["metadata"]["name"])
        found[f"{name}=={item['metadata']['version']}"].add(item["download_info"]["archive_info"]["hashes"]["sha256"])
        url = item["download_info"]["url"]
        if url.endswith(".whl") and not url.endswith("-any.whl"):
            built.add(name)
    return built


def normal(name: str) -> str:
    """Normalize a package name as the index does."""
    return name.lower().replace("_", "-").replace(".", "-")


def normal_line(line: str) -> str:
    name, _, version = line.partition("==")
    return f"{normal(name)}=={version.strip()}"


if __name__ == "__main__":
    main()
