"""A release needs what only its publisher knows, and its files install anywhere."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHECKED = ("pyproject.toml", "CITATION.cff", "mkdocs.yml", "CHANGELOG.md")


def check(root: Path, *options: str) -> subprocess.CompletedProcess[str]:
    script = root / "pipelines" / "check_release.py"
    return subprocess.run([sys.executable, script, *options], capture_output=True, text=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of what is checked, as somebody has it who wants to publish."""
    (tmp_path / "pipelines").mkdir()
    shutil.copy(ROOT / "pipelines" / "check_release.py", tmp_path / "pipelines")
    for name in CHECKED:
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")


def fill_in(project: Path) -> None:
    """What RELEASING.md asks for."""
    names = ("Repository", "Issues", "Documentation", "Changelog", "Security")
    urls = "".join(f'{name} = "https://example.org/{name}"\n' for name in names)
    replace(
        project / "pyproject.toml",
        'license = "Apache-2.0"\n',
        'license = "Apache-2.0"\nauthors = [{name = "Ada", email = "ada@example.org"}]\n',
    )
    replace(project / "pyproject.toml", "[project.scripts]\n", f"[project.urls]\n{urls}\n[project.scripts]\n")
    replace(project / "CITATION.cff", "name: The adk-graph-memory contributors", "name: Ada")
    site = project / "mkdocs.yml"
    site.write_text(f"site_url: https://example.org\nrepo_url: https://example.org\n{site.read_text('utf-8')}", "utf-8")
    replace(project / "CHANGELOG.md", "(not released)", "(2026-12-01)")


def test_nothing_is_published_without_its_publishers_facts(project: Path) -> None:
    refused = check(project)
    assert refused.returncode == 1
    for gap in ("author or maintainer", "Repository", "Security", "CITATION.cff", "site_url", "CHANGELOG.md"):
        assert gap in refused.stderr, gap


def test_with_them_it_is(project: Path) -> None:
    fill_in(project)
    accepted = check(project, "--tag", "v0.1.0")
    assert (accepted.returncode, accepted.stderr) == (0, "")


def test_a_tag_of_another_version_is_refused(project: Path) -> None:
    fill_in(project)
    assert "The tag is v9.9.9, the version 0.1.0." in check(project, "--tag", "v9.9.9").stderr


def test_the_workflow_asks_before_it_builds() -> None:
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8")
    asked = workflow.index("pipelines/check_release.py")
    assert asked < workflow.index("python -m build") < workflow.index("gh-action-pypi-publish")
    assert "needs: check" in workflow
    assert "id-token: write" in workflow
    assert "password" not in workflow


@pytest.mark.full
def test_the_files_of_a_release_install_in_an_empty_environment(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path / "dist"), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    files = sorted((tmp_path / "dist").iterdir())
    assert [path.suffix for path in files] == [".whl", ".gz"]
    checked = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *files], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout
    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty" / "bin" / "python"
    requirements = (ROOT / "requirements" / "all.txt").read_text("utf-8")
    pins = re.findall(r"^[\w.-]+==.+(?= \\$)", requirements, re.MULTILINE)  # no hashes, because the wheel has none
    (tmp_path / "pins.txt").write_text("\n".join(pins), "utf-8")
    pip = [python, "-m", "pip", "install", "--quiet", "-c", tmp_path / "pins.txt", files[0]]
    subprocess.run(pip, check=True, capture_output=True)
    asked = "import adk_graph_memory; print(adk_graph_memory.__file__)"
    imported = subprocess.run([python, "-c", asked], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert imported.stdout.startswith(str(tmp_path))
    command = tmp_path / "empty" / "bin" / "adk-graph-memory"
    subprocess.run([command, "--help"], check=True, capture_output=True, cwd=tmp_path)
