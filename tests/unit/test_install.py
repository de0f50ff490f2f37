"""The set-up tells uv what pip is told, and leaves to pip what uv cannot do."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
INSTALL: dict[str, Any] = runpy.run_path(str(ROOT / "pipelines" / "install.py"))
REQUIREMENTS = f"other==1.0 \\\n    --hash=sha256:{'0' * 64}\nuv==0.13.9 \\\n    --hash=sha256:{'1' * 64}\nzipp==4.1\n"


@pytest.fixture
def configure_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Tell pip something by a file and by variables; what this machine's own files say counts less."""
    for name in [name for name in os.environ if name.startswith(("PIP_", "REQUESTS_"))]:
        monkeypatch.delenv(name)

    def configure(file: str = "", **variables: str) -> None:
        (tmp_path / "pip.conf").write_text(file, "utf-8")
        monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return configure


def translate() -> dict[str, str]:
    variables: dict[str, str] = INSTALL["translate_options"](INSTALL["read_pip_options"](Path(sys.executable)))
    return variables


def test_nothing_is_told_if_pip_is_told_nothing(configure_pip: Callable[..., None]) -> None:
    configure_pip(PIP_CONFIG_FILE=os.devnull)
    assert translate() == {}
    configure_pip(PIP_CONFIG_FILE=os.devnull, REQUESTS_CA_BUNDLE="ca.pem")
    assert translate() == {"SSL_CERT_FILE": "ca.pem"}


def test_uv_is_told_which_indexes_certificates_and_proxy_pip_uses(configure_pip: Callable[..., None]) -> None:
    configure_pip(
        """
        [global]
        index-url = https://me:secret@packages.example.org/simple
        extra-index-url =
            https://one.example/simple
            https://two.example/simple
        trusted-host = one.example two.example
        cert = ~/ca.pem
        proxy = http://proxy.example:3128
        timeout = 60
        progress-bar = off
        [install]
        find-links = /wheels
            ~/more
        [download]
        no-binary = :all:
        """.replace("        ", "", 1).replace("\n        ", "\n"),
        PIP_CLIENT_CERT="client.pem",
        PIP_RETRIES="2",
        PIP_NO_CACHE_DIR="1",
    )
    home = Path.home()
    assert translate() == {
        "UV_DEFAULT_INDEX": "https://me:secret@packages.example.org/simple",
        "UV_INDEX": "https://one.example/simple https://two.example/simple",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_INSECURE_HOST": "one.example two.example",
        "UV_FIND_LINKS": f"/wheels,{home}/more",
        "UV_HTTP_TIMEOUT": "60",
        "UV_HTTP_RETRIES": "2",
        "UV_NO_CACHE": "1",
        "SSL_CERT_FILE": f"{home}/ca.pem",
        "SSL_CLIENT_CERT": "client.pem",
        "HTTP_PROXY": "http://proxy.example:3128",
        "HTTPS_PROXY": "http://proxy.example:3128",
    }


def test_a_variable_wins_over_a_file_and_install_over_global(configure_pip: Callable[..., None]) -> None:
    file = (
        "[install]\nindex-url = https://install.example\ncert = b.pem\n[global]\nindex-url = https://global.example\n"
    )
    configure_pip(file, PIP_CERT="c.pem")
    variables = translate()
    assert (variables["UV_DEFAULT_INDEX"], variables["SSL_CERT_FILE"]) == ("https://install.example", "c.pem")


def make_environment(
    folder: Path, uv_status: int = 0, pip_options: str = "", version: Sequence[int] = sys.version_info
) -> Path:
    """An environment whose Python and uv write down what they are asked to do."""
    (folder / "bin").mkdir(parents=True)
    (folder / "pyvenv.cfg").touch()
    log = f'echo "$(basename "$0") $@ [$UV_DEFAULT_INDEX]" >> {folder}/calls\n'
    tell = f"-c*) echo {version[0]} {version[1]}; exit 0"
    show = f'case "$*" in *"config list") echo "{pip_options}"; exit 0;; {tell};; esac\n'
    for name, script in (("python", show + log), ("pip", ""), ("uv", f"{log}exit {uv_status}\n")):
        (folder / "bin" / name).write_text(f"#!/bin/sh\n{script}", "utf-8")
        (folder / "bin" / name).chmod(0o755)
    return folder


def run(folder: Path) -> list[str]:
    requirements = folder / "requirements.txt"
    requirements.write_text(REQUIREMENTS, "utf-8")
    assert INSTALL["main"](folder, requirements) == 0
    calls = (folder / "calls").read_text("utf-8")
    return calls.replace(str(folder), "VENV").replace(str(ROOT), "PROJECT").splitlines()


BY_UV = [
    "uv pip install --python VENV/bin/python --quiet --no-deps --require-hashes -r VENV/requirements.txt [https://a.b/c]",
    "uv pip install --python VENV/bin/python --quiet --no-deps --no-build-isolation --editable PROJECT [https://a.b/c]",
]
PIP = "python -m pip install --disable-pip-version-check --quiet --no-deps"
BY_PIP = [
    f"{PIP} --require-hashes -r VENV/requirements.txt []",
    f"{PIP} --no-build-isolation --editable PROJECT []",
]


def test_uv_installs_what_is_pinned_and_then_the_project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_environment(tmp_path / "venv", pip_options="global.index-url='https://a.b/c'")
    uv, *others = run(folder)
    assert uv.startswith("python -m pip install --quiet --disable-pip-version-check --require-hashes -r /")
    assert others == BY_UV
    assert len(capsys.readouterr().out.splitlines()) == 1


@pytest.mark.parametrize(
    ("uv_status", "pip_options", "reason"),
    [
        (0, ":env:.no-binary=':all:'", "uv has no counterpart of pip's option no-binary"),
        (2, "", "uv failed, as it says above"),
    ],
)
def test_pip_installs_what_uv_cannot_and_one_line_says_why(
    uv_status: int, pip_options: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = run(make_environment(tmp_path / "venv", uv_status, pip_options))
    assert calls[-2:] == BY_PIP
    assert capsys.readouterr().out.splitlines()[1:] == [f"pip installs them instead of uv: {reason}."]


def test_pip_installs_if_there_is_no_uv(configure_pip: Callable[..., None], tmp_path: Path) -> None:
    configure_pip("[global]\nno-index = true\n")
    (tmp_path / "pins.txt").write_text(REQUIREMENTS.replace("0.13.9", "0.0.0"), "utf-8")
    with pytest.raises(INSTALL["CannotUseUvError"], match=r"uv cannot be installed \(ERROR: No matching distribution"):
        INSTALL["install_uv"](Path(sys.executable), tmp_path / "pins.txt")


def test_uv_is_the_one_that_is_pinned() -> None:
    assert INSTALL["find_pin"]("uv", REQUIREMENTS) == f"uv==0.13.9 \\\n    --hash=sha256:{'1' * 64}"
    for name in ("all.txt", "demo.txt"):
        pin = INSTALL["find_pin"]("uv", (ROOT / "requirements" / name).read_text("utf-8"))
        assert pin.count("--hash=sha256:") > 10


@pytest.mark.slow
@pytest.mark.parametrize("is_there", [True, False], ids=["another version", "a link to nothing"])
def test_the_environment_of_another_python_is_made_again(is_there: bool, tmp_path: Path) -> None:
    folder = make_environment(tmp_path / "venv", version=(3, 10))
    if not is_there:
        (folder / "bin" / "python").unlink()
        (folder / "bin" / "python").symlink_to(tmp_path / "removed")
    python = INSTALL["make_environment"](folder)
    assert python == folder / "bin" / "python"
    shown = subprocess.run([python, "-c", "import sys; print(sys.prefix)"], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == str(folder)


@pytest.mark.slow
def test_a_folder_that_is_no_environment_keeps_its_files(tmp_path: Path) -> None:
    (tmp_path / "letters").write_text("Dear Ada", "utf-8")
    assert INSTALL["make_environment"](tmp_path) == tmp_path / "bin" / "python"
    assert (tmp_path / "letters").read_text("utf-8") == "Dear Ada"


@pytest.mark.parametrize("version", [(3, 10, 12), (3, 15, 0)])
def test_a_python_without_pins_is_refused(
    version: tuple[int, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "version_info", version)
    assert INSTALL["main"](Path("nowhere"), Path("nothing")) == 1
    assert "Python 3.11 to 3.14 is needed" in capsys.readouterr().err


def test_the_pins_are_resolved_where_pip_looks(
    configure_pip: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    configure_pip(PIP_INDEX_URL="https://packages.example.org/simple", PIP_EXTRA_INDEX_URL="https://one.example/simple")
    monkeypatch.syspath_prepend(str(ROOT / "pipelines"))
    lock, environments = runpy.run_path(str(ROOT / "pipelines" / "lock.py")), list[dict[str, str]]()
    target, run = tmp_path / "pins.txt", subprocess.run
    target.write_text("one==1 ; here \\\n")

    def resolve(command: Sequence[Any], *, env: dict[str, str] | None = None, **more: Any) -> Any:
        if "compile" not in command:
            return run(command, env=env, **more)
        environments.append(env or {})
        return None

    monkeypatch.setattr(subprocess, "run", resolve)
    lock["resolve"](target)
    [environment] = environments
    assert environment["UV_DEFAULT_INDEX"] == "https://packages.example.org/simple"
    assert (environment["UV_INDEX"], environment["UV_INDEX_STRATEGY"]) == ("https://one.example/simple", "first-index")
