"""README.md and the documents beside it: their code blocks, each with the heading that it stands under."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
_HEADING_OR_BLOCK = re.compile(r"^## ([^\n]+)$|^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """One code block."""

    heading: str
    language: str
    text: str


def blocks(document: str) -> list[Block]:
    """All of a document's, in their order."""
    found, latest = [], ""
    for heading, language, text in _HEADING_OR_BLOCK.findall((ROOT / document).read_text("utf-8")):
        latest = heading or latest
        if not heading:
            found.append(Block(latest, language, text))
    return found


def run_block(block: str, app_name: str) -> dict[str, Any]:
    """Runs a block as a stranger would, for an app of its own; what it defines is returned."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(block.replace('"home"', f'"{app_name}"'), "<document>", "exec", dont_inherit=True), names)  # noqa: S102
    return names
