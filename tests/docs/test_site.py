"""The site builds, and no page links to what is not there."""

from __future__ import annotations

import pkgutil
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.documents import ROOT

import adk_graph_memory

ROOT_PAGES = sorted(path.name for path in ROOT.glob("*.md"))
_LINK = re.compile(r"\]\((?!\w+:)([^)\s]*)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    zensical = [sys.executable, "-m", "zensical", "build", "--strict"]
    built = subprocess.run(zensical, cwd=tmp_path, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    for page in (tmp_path / "docs").rglob("*.md"):
        path = page.relative_to(tmp_path / "docs").with_suffix("")
        html = tmp_path / "site" / (path if path.name != "index" else path.parent) / "index.html"
        assert html.is_file(), html
    assert "add_session_to_memory" in (tmp_path / "site" / "api" / "index.html").read_text("utf-8")


@pytest.mark.slow
def test_the_reference_shows_every_public_name() -> None:
    page = (ROOT / "docs" / "api.md").read_text("utf-8")
    shown = set(re.findall(r"^::: adk_graph_memory\.(\w+)$", page, re.MULTILINE))
    assert shown - {"errors", "testing"} == set(adk_graph_memory.__all__) - {"__version__"}


def test_every_page_is_in_the_navigation() -> None:
    navigation = re.findall(r"([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    assert sorted(navigation) == sorted(str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md"))


@pytest.mark.parametrize("page", ROOT_PAGES)
def test_links_of_pages_beside_the_readme_lead_somewhere(page: str) -> None:
    for link in _LINK.findall((ROOT / page).read_text("utf-8")):
        path, _, anchor = link.partition("#")
        target = ROOT / (path or page)
        assert target.exists(), link
        if anchor:
            assert anchor in {make_anchor(heading) for heading in _HEADING.findall(target.read_text("utf-8"))}, link


PAGES_ABOUT_THE_CODE = ["ARCHITECTURE.md", "CONTRIBUTING.md", "RELEASING.md", "docs/recipes.md"]
PAGES_ABOUT_THE_CODE += sorted(f"docs/internals/{path.name}" for path in (ROOT / "docs" / "internals").glob("*.md"))
_CODE = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"[\w./-]+\.(?:py|cypher|md|yml|toml|cff|json)")
_NAME = re.compile(r"(\w+)((?:\.[A-Za-z_]\w*)+)")


@pytest.mark.parametrize("page", PAGES_ABOUT_THE_CODE)
def test_pages_about_the_code_name_what_is_there(page: str) -> None:
    package = ROOT / "src" / "adk_graph_memory"
    missing = []
    for code in _CODE.findall((ROOT / page).read_text("utf-8")):
        if _PATH.fullmatch(code):
            places = (ROOT, package, package / "cli" / "demo")
            missing += [] if any((place / code).exists() for place in places) else [code]
        elif (name := _NAME.match(code)) and (package / name[1]).is_dir():
            try:
                pkgutil.resolve_name(f"adk_graph_memory.{name[0]}")
            except (ImportError, AttributeError):
                missing.append(code)
    assert missing == []


def make_anchor(heading: str) -> str:
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
