# SPDX-License-Identifier: Apache-2.0
"""What ``tools/debian_packages.sh`` says where it may install nothing, by which everything is installed."""

import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "tools" / "debian_packages.sh"


def run(folder: Path, **programs: str) -> subprocess.CompletedProcess[str]:
    """Run it with these programs and no others, for two packages."""
    for name, body in programs.items():
        (folder / name).write_text(f"#!/bin/bash\n{body}\n")
        (folder / name).chmod(0o755)
    words = ["/bin/bash", SCRIPT, "hypervisor", "a minute", "swtpm", "ovmf"]
    return subprocess.run(words, env={"PATH": str(folder)}, capture_output=True, text=True, check=False)


def test_who_is_not_root_is_told_what_root_has_to_type(tmp_path: Path) -> None:
    done = run(tmp_path, id="echo 1000", **{"apt-get": f"touch {tmp_path}/called"})
    assert done.returncode == 1
    assert done.stderr == (
        "hypervisor: please run this as root, then try again: apt-get install --no-install-recommends swtpm ovmf\n"
    )
    assert not (tmp_path / "called").exists()


def test_on_another_system_it_names_what_debian_calls_them(tmp_path: Path) -> None:
    done = run(tmp_path, id="echo 0")
    assert done.returncode == 1
    assert done.stderr == (
        "hypervisor: please install what Debian calls swtpm ovmf; only Debian's apt-get is known here\n"
    )
