"""Install the pinned packages of a file, and this project, into a virtual environment.

    python pipelines/install.py .venv requirements/demo.txt

uv installs them, several times as fast as pip. It does not read pip's configuration, so it is told what pip is told:
indexes, certificates, the proxy. If pip is told anything else that matters, or uv fails, pip installs the same
packages, and one line says why. Nothing is installed before this script, so it needs only the standard library.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
UV_VARIABLES = {
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
    "default-timeout": "UV_HTTP_TIMEOUT",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "index-url": "UV_DEFAULT_INDEX",
    "no-cache-dir": "UV_NO_CACHE",
    "proxy": "HTTP_PROXY HTTPS_PROXY",
    "retries": "UV_HTTP_RETRIES",
    "timeout": "UV_HTTP_TIMEOUT",
    "trusted-host": "UV_INSECURE_HOST",
}
"""The variables that tell uv what an option of pip says."""
SEPARATORS = {"extra-index-url": " ", "find-links": ",", "trusted-host": " "}
"""What separates several values in the variable; pip takes any whitespace."""
IRRELEVANT = {
    *("break-system-packages", "cache-dir", "config-file", "debug", "disable-pip-version-check", "log", "no-color"),
    *("no-input", "no-python-version-warning", "no-warn-conflicts", "no-warn-script-location", "pre"),
    *("prefer-binary", "progress-bar", "quiet", "require-hashes", "require-virtualenv", "root-user-action", "upgrade"),
    *("upgrade-strategy", "use-deprecated", "use-feature", "user", "verbose"),
}
"""Options of pip that change neither where packages come from nor which are installed, as each is pinned by hash."""


class CannotUseUvError(Exception):
    """pip has to install the packages; the message says why."""


def read_pip_options(python: Path) -> dict[str, str]:
    """Read what pip's configuration files and variables say about installing, as pip itself resolves them."""
    listed = subprocess.run(
        [python, "-m", "pip", "config", "list"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    rows = re.findall(r"^(global|install|:env:)\.([\w-]+)=(.+)$", listed, re.MULTILINE)
    rows.sort(key=lambda row: ("global", "install", ":env:").index(row[0]))
    options = {name: ast.literal_eval(value) for _, name, value in rows}
    bundle = os.environ.get("REQUESTS_CA_BUNDLE")  # requests reads it, by which pip downloads
    return {"cert": bundle, **options} if bundle else options


def translate_options(options: Mapping[str, str]) -> dict[str, str]:
    """Translate pip's options into variables for uv.

    Raises:
        CannotUseUvError: uv has no counterpart of an option.
    """
    variables: dict[str, str] = {}
    for name, value in options.items():
        if name in IRRELEVANT:
            continue
        if name not in UV_VARIABLES:
            raise CannotUseUvError(f"uv has no counterpart of pip's option {name}")
        words = value.split() if name in SEPARATORS else [value]
        text = SEPARATORS.get(name, "").join(map(os.path.expanduser, words))
        variables |= dict.fromkeys(UV_VARIABLES[name].split(), text)
    if "UV_INDEX" in variables:
        variables["UV_INDEX_STRATEGY"] = "unsafe-best-match"  # like pip, look in all indexes; the hashes keep it safe
    return variables


def make_uv_environment(python: Path) -> dict[str, str]:
    """The variables of a uv that looks for packages where pip does.

    Raises:
        CannotUseUvError: uv has no counterpart of an option of pip's.
    """
    return os.environ | translate_options(read_pip_options(python))


def install_uv(python: Path, requirements: Path) -> Path:
    """Install uv itself, with pip, in the version that the requirements pin.

    Raises:
        CannotUseUvError: it cannot be installed here.
    """
    with tempfile.TemporaryDirectory() as folder:
        pin = Path(folder) / "uv.txt"
        pin.write_text(find_pin("uv", requirements.read_text("utf-8")), "utf-8")
        quietly = ["--quiet", "--disable-pip-version-check", "--require-hashes"]
        pip = [str(python), "-m", "pip", "install", *quietly, "-r", str(pin)]
        installed = subprocess.run(pip, capture_output=True, text=True)
    if installed.returncode:
        reason = installed.stderr.strip().rpartition("\n")[2]
        raise CannotUseUvError(f"uv cannot be installed ({reason})")
    return python.with_name("uv")


def find_pin(name: str, requirements: str) -> str:
    """Find a package in requirements: its version and its hashes."""
    match = re.search(rf"^{name}==.*(?:\n .*)*", requirements, re.MULTILINE)
    return match[0] if match else ""


def install(installer: Sequence[str], requirements: Path, environment: Mapping[str, str]) -> int:
    """Install the packages and then the project, which has no hash; return the installer's exit status."""
    for options in (("--require-hashes", "-r", str(requirements)), ("--no-build-isolation", "--editable", str(ROOT))):
        command = [*installer, "--quiet", "--no-deps", *options]
        if status := subprocess.run(command, env=environment).returncode:
            return status
    return 0


def make_environment(folder: Path) -> Path | None:
    """Make the virtual environment, unless this Python has made it; return its Python, or print why there is none."""
    if not (3, 11) <= sys.version_info < (3, 15):
        print("Python 3.11 to 3.14 is needed: make PYTHON=python3.12", file=sys.stderr)
        return None
    python = folder.absolute() / "bin" / "python"
    version = "import sys; print(*sys.version_info[:2])"
    try:
        found = subprocess.run([python, "-c", version], capture_output=True, text=True).stdout.split()
    except OSError:  # none there, or a link to a Python that was removed
        found = []
    if found != [str(number) for number in sys.version_info[:2]] or not python.with_name("pip").exists():
        try:
            is_environment = (folder / "pyvenv.cfg").exists()  # nothing else is emptied, whatever VENV names
            venv.create(folder, clear=is_environment, symlinks=True, with_pip=True)
        except subprocess.CalledProcessError as error:
            print(f"{error.output.decode()}\nOn Debian and Ubuntu: apt install python3-venv", file=sys.stderr)
            return None
    return python


def main(folder: Path, requirements: Path) -> int:
    if (python := make_environment(folder)) is None:
        return 1
    print(f"Installing the packages of {requirements} into {folder}.", flush=True)
    try:
        environment = make_uv_environment(python)
        uv = install_uv(python, requirements)
        if install([str(uv), "pip", "install", "--python", str(python)], requirements, environment):
            raise CannotUseUvError("uv failed, as it says above")
        return 0
    except CannotUseUvError as reason:
        print(f"pip installs them instead of uv: {reason}.", flush=True)
        pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check"]
        return install(pip, requirements, os.environ | {"PIP_USER": "0", "PIP_REQUIRE_HASHES": "0"})


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
