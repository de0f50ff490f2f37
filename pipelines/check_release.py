"""Refuse a release that lacks what only its publisher knows: authors, addresses, a security contact, a date.

    python pipelines/check_release.py

RELEASING.md says where each of these belongs.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

ROOT = Path(__file__).parents[1]
REQUIRED_URLS = ("Repository", "Issues", "Documentation", "Changelog", "Security")
PLACEHOLDER_AUTHOR = "The adk-graph-memory contributors"


def find_gaps(tag: str) -> Iterator[str]:
    """Yield what a release with this tag, if it has one, still lacks, one sentence each."""
    pyproject, citation, site, changes = (
        (ROOT / name).read_text("utf-8") for name in ("pyproject.toml", "CITATION.cff", "mkdocs.yml", "CHANGELOG.md")
    )
    project = tomllib.loads(pyproject)["project"]
    version = re.escape(project["version"])
    if not any(person.get("email") for person in (*project.get("authors", ()), *project.get("maintainers", ()))):
        yield "pyproject.toml names no author or maintainer with an e-mail address."
    for name in REQUIRED_URLS:
        if not project.get("urls", {}).get(name):
            yield f"pyproject.toml has no {name} in [project.urls]."
    if PLACEHOLDER_AUTHOR in citation:
        yield "CITATION.cff names no authors."
    if not re.search(rf"^version: {version}$", citation, re.MULTILINE):
        yield f"CITATION.cff does not have version {project['version']}."
    for name in ("site_url", "repo_url"):
        if not re.search(rf"^{name}: \S", site, re.MULTILINE):
            yield f"mkdocs.yml has no {name}."
    if not re.search(rf"^## {version} \(\d{{4}}-\d{{2}}-\d{{2}}\)$", changes, re.MULTILINE):
        yield f"CHANGELOG.md has no heading `## {project['version']} (YYYY-MM-DD)`."
    if tag and tag != f"v{project['version']}":
        yield f"The tag is {tag}, the version {project['version']}."


def main(
    tag: Annotated[str, typer.Option(help="The tag of the release; it has to be the version's.")] = "",
) -> None:
    """Exit with 1, and say what is missing, if the project is not fit to publish."""
    gaps = list(find_gaps(tag))
    for gap in gaps:
        typer.echo(gap, err=True)
    raise typer.Exit(1 if gaps else 0)


if __name__ == "__main__":
    typer.run(main)
