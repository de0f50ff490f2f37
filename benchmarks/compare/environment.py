"""Install what a peer needs, by its lock, into a folder of its own: the project's environment stays as it is."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

LOCKS = Path(__file__).parent / "locks"


class CannotInstallError(Exception):
    """A peer's packages cannot be installed; the message is the last line of pip's error."""


def add_packages(lock: Path, folder: Path) -> None:
    """Installs the packages of a lock file once, and puts them before those of the environment.

    Args:
        lock: exact versions, a line each, with all that the environment lacks; nothing else is resolved.
        folder: where the packages of all locks lie, in a folder for each lock, content and Python.

    Raises:
        CannotInstallError: pip failed.
    """
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()[:12]
    packages = folder / f"{lock.stem}-{sys.implementation.cache_tag}-{digest}"
    is_complete = packages / ".complete"
    if not is_complete.exists():
        _install_packages(lock, packages)
        is_complete.touch()
    if str(packages) not in sys.path:
        sys.path.insert(0, str(packages))


def _install_packages(lock: Path, packages: Path) -> None:
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input")
    quickly = ("--retries", "1", "--timeout", "15")
    command = (*pip, *quickly, "--no-deps", "--upgrade", "--target", str(packages), "--requirement", str(lock))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line.strip() for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()]
        raise CannotInstallError(lines[-1] if lines else f"pip ended with {done.returncode}")
