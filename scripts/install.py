"""Installs one lock into the environment that runs this script: `python scripts/install.py requirements/dev.lock`.

uv does it, at a sixth of pip's CPU time: 16 instead of 100 seconds for requirements/dev.lock. It is asked to use what pip is set up
for: registry, folders of wheels, certificates. Where uv cannot be had or cannot install the lock, pip does.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UV = "uv>=0.9,<1"
# What pip calls it, and uv's variable for the same. Both take several values with spaces between them.
NAMES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "no-index": "UV_NO_INDEX",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "default-timeout": "UV_HTTP_TIMEOUT",
    "timeout": "UV_HTTP_TIMEOUT",
}
PIP = [sys.executable, "-m", "pip"]


def settings_for_uv(listed: str) -> dict[str, str]:
    """What `pip config list` printed as uv's variables. pip prefers its variables to its files, so they come last here."""
    found: dict[str, str] = {}
    for line in sorted(listed.splitlines(), key=lambda line: line.startswith(":env:")):
        name, _, value = line.partition("=")
        section, _, option = name.rpartition(".")
        if section in ("global", "install", ":env:") and option in NAMES:
            values = str(ast.literal_eval(value)).split()
            found[NAMES[option]] = ("," if option == "find-links" else " ").join(values)
    return found


def with_uv(lock: Path) -> bool:
    """Whether uv installed the lock. It looks for a version in every registry, as pip does: the hashes say which file is meant."""
    with tempfile.TemporaryDirectory() as folder:
        if subprocess.run(
            [*PIP, "install", "--quiet", "--no-deps", "--target", folder, UV], stderr=subprocess.DEVNULL, check=False
        ).returncode:
            return False
        listed = subprocess.run([*PIP, "config", "list"], capture_output=True, text=True, check=False).stdout
        command = [f"{folder}/bin/uv", "pip", "install", "--quiet", "--no-config", "--no-deps", "--require-hashes",
            "--index-strategy", "unsafe-best-match", "--python", sys.executable, "--requirement", str(lock)]  # fmt: skip
        env = settings_for_uv(listed) | os.environ
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"setup: uv could not install {lock}, so pip will: {done.stderr.strip()[-500:]}", file=sys.stderr)
    return done.returncode == 0


def with_pip(lock: Path) -> bool:
    """pip works on one core: two of them install, each its half of the lock. No two packages of it share a file."""
    halves: tuple[list[str], list[str]] = ([], [])
    number = 0
    for line in lock.read_text(encoding="utf-8").splitlines():
        number += line[:1].isalnum()
        halves[number % 2].append(line)
    with tempfile.TemporaryDirectory() as folder:
        running = []
        for number, half in enumerate(halves):
            part = Path(folder) / f"{number}.txt"
            part.write_text("\n".join(half), encoding="utf-8")
            options = ["--quiet", "--no-compile", "--no-deps", "--require-hashes", "--requirement", str(part)]
            running.append(subprocess.Popen([*PIP, "install", *options]))
        codes = [each.wait() for each in running]  # both end before we go on
        return not any(codes)


def main(lock: Path) -> int:
    return 0 if with_uv(lock) or with_pip(lock) else 1


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main(Path(sys.argv[1])))
