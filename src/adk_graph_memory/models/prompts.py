"""Load prompt templates, each with a version that changes with its text, and encode data lines for them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt template with ``$name`` placeholders."""

    name: str
    text: str

    @property
    def version(self) -> str:
        """The prompt's name and 8 hex characters of its text's hash; stored with everything the prompt produced."""
        return f"{self.name}@{hashlib.blake2b(self.text.encode(), digest_size=4).hexdigest()}"

    def fill_template(self, **values: str) -> str:
        """Replace the placeholders by these values.

        Raises:
            KeyError: a placeholder has no value.
        """
        return Template(self.text).substitute(values)


FRAMES = ("conversation", "known", "new")
"""Tags that mark in a prompt where data begins and ends."""
_FRAME_PATTERN = re.compile(rf"<(?=\s*/?\s*(?:{'|'.join(FRAMES)})\b)", re.IGNORECASE)
_LINE_SEPARATORS = {ord(mark): f"\\u{ord(mark):04x}" for mark in "\x85\u2028\u2029"}
"""Line breaks that JSON leaves as they are."""


def encode_line(data: Mapping[str, Any]) -> str:
    """Encode data as one line of JSON, escaping what looks like a frame's tag; other angle brackets stay."""
    return _FRAME_PATTERN.sub(r"\\u003c", json.dumps(data, ensure_ascii=False)).translate(_LINE_SEPARATORS)


def decode_lines(prompt: str, frame: str) -> list[dict[str, Any]]:
    """Decode the lines that :func:`encode_line` wrote inside ``<frame>`` of a filled prompt."""
    body = prompt.rpartition(f"<{frame}>\n")[2].partition(f"\n</{frame}>")[0]
    return [json.loads(line) for line in body.splitlines() if line.startswith("{")]


@cache
def load_prompt(name: str) -> Prompt:
    """Load the prompt ``prompts/<name>.md``."""
    # A wheel contains the prompts in the package; an editable install reads the repository's folder.
    packaged = resources.files("adk_graph_memory") / "_prompts"
    folder = packaged if packaged.is_dir() else Path(__file__).parents[3] / "prompts"
    return Prompt(name, (folder / f"{name}.md").read_text(encoding="utf-8"))
