"""What is published names no machine, no mirror, no person, and nothing left for later."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# One letter in brackets, so that this file does not find itself.
FORBIDDEN = {
    "a registry's host": re.compile(
        r"\b(pypi\.or[g]|pythonhosted\.or[g]|repo1?\.maven\.(org|apache\.org)\b|registry\.npmj[s]|ghcr\.i[o]"
        r"|artifactor[y]|nexu[s]\.|proxy\.golan[g])",
        re.IGNORECASE,
    ),
    "a machine's path": re.compile(r"(?<![\w.$~}])/(roo[t]|wor[k]|hom[e]/\w+|User[s]/\w+|tmp/[w])(?=[/\s'\"`:;,)]|$)"),
    "work left for later": re.compile(r"\b(TOD[O]|FIXM[E]|XX[X])\b"),
    "an e-mail address": re.compile(
        r"[\w.+-]+@(?!([\w-]+\.)*example\.(org|com)\b)([\w-]+\.)+[a-z]{2,}\b", re.IGNORECASE
    ),
}


def published() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
    )
    files = [path for name in sorted(listed.stdout.split("\0")) if name and (path := ROOT / name).is_file()]
    files = [path for path in files if not path.name.endswith(".min.js")]  # others' libraries, as they publish them
    return [path for path in files if b"\0" not in path.read_bytes()]  # numbers may spell anything


@pytest.mark.parametrize("what", FORBIDDEN)
def test_nothing_published_holds(what: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for path in published()
        for number, line in enumerate(path.read_text("utf-8", errors="ignore").splitlines(), 1)
        for match in FORBIDDEN[what].finditer(line)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("a registry's host", "https://files.pythonhosted" + ".org/x"),
        ("a machine's path", "cd /ro" + "ot/x"),
        ("work left for later", "TO" + "DO: tidy"),
        ("an e-mail address", "ada@love" + "lace.net"),
    ],
)
def test_the_rule_would_find(what: str, text: str) -> None:
    assert FORBIDDEN[what].search(text)


@pytest.mark.parametrize("text", ["ada@example.org", "bolt://u:p@db.example.com:7687", "@pytest.fixture", "a/work/b"])
def test_the_rule_leaves_alone(text: str) -> None:
    assert not any(rule.search(text) for rule in FORBIDDEN.values())
