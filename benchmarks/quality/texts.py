"""Print what is said in this repository's own conversations, a text a line.

    python -m benchmarks.quality.texts > texts.txt
    python pipelines/fit_projection.py --texts texts.txt --out FILE

FILE is ``src/adk_graph_memory/models/projections/all-MiniLM-L6-v2.npz``.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

from benchmarks.quality import chats, few_words, unanswerable, updates

ENOUGH = 2_500


def load_texts() -> list[str]:
    """Some of them, always the same."""
    generated = (*chats.load(), *updates.load(), *unanswerable.load(), *few_words.load())
    texts = [turn.text for conversation in generated for session in conversation.sessions for turn in session.turns]
    for file in sorted((Path(__file__).parent / "conversations").glob("*.json")):
        texts += _iterate_texts(json.loads(file.read_text("utf-8")))
    texts += _iterate_texts(
        json.loads((resources.files("adk_graph_memory.cli.demo") / "conversation.json").read_text("utf-8"))
    )
    different = sorted({" ".join(text.split()) for text in texts})
    return random.Random(0).sample(different, ENOUGH)


def _iterate_texts(data: Any) -> Iterator[str]:
    """Whatever stands under "text", however deep."""
    for key, value in data.items() if isinstance(data, dict) else enumerate(data):
        if key == "text" and isinstance(value, str):
            yield value
        elif isinstance(value, dict | list):
            yield from _iterate_texts(value)


if __name__ == "__main__":
    print("\n".join(load_texts()))
