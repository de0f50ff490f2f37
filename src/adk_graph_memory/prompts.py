"""A prompt's name goes in, its text as a template comes out, with a version that changes when its words do."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template
from typing import Any


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt with ``$names`` to be filled."""

    name: str
    text: str

    @property
    def version(self) -> str:
        """Stored with everything this prompt made: its name and 8 hex characters of its content."""
        return f"{self.name}@{hashlib.blake2b(self.text.encode(), digest_size=4).hexdigest()}"

    def fill_template(self, **values: str) -> str:
        """The prompt with its names replaced.

        Raises:
            KeyError: a name of the prompt has no value.
        """
        return Template(self.text).substitute(values)


FRAMES = ("conversation", "known", "new")
"""What the prompts put between angle brackets to say where data begins and ends."""
_FRAME_PATTERN = re.compile(rf"<(?=\s*/?\s*(?:{'|'.join(FRAMES)})\b)", re.IGNORECASE)


def encode_line(data: Mapping[str, Any]) -> str:
    """One line of JSON that cannot pass for the prompt's own frame; angle brackets of code stay as they are."""
    return _FRAME_PATTERN.sub(r"\\u003c", json.dumps(data, ensure_ascii=False))


def decode_lines(prompt: str, frame: str) -> list[dict[str, Any]]:
    """The data of a filled prompt's lines inside ``<frame>``, as :func:`encode_line` was given them."""
    inner = prompt.rpartition(f"<{frame}>\n")[2].partition(f"\n</{frame}>")[0]
    return [json.loads(line) for line in inner.splitlines() if line.startswith("{")]


@cache
def load_prompt(name: str) -> Prompt:
    """The prompt ``prompts/<name>.md`` of this installation."""
    return Prompt(name, (_find_prompt_folder() / f"{name}.md").read_text(encoding="utf-8"))


def _find_prompt_folder() -> Traversable:
    """In a wheel the prompts lie in the package; an editable install reads the repository's own folder."""
    packaged = resources.files("adk_graph_memory") / "_prompts"
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "prompts"
