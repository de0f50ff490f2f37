"""Read the pages of the inspector as a browser would, for tests."""

from __future__ import annotations

import base64
import gzip
import json
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

from adk_graph_memory.memory.pages.document import MemoryView

_TAGS = """
a b blockquote body button caption code dd details dialog div dl dt form h1 h2 h3 head header html input label
li line link main mark meta nav ol output p q rect s script section span summary svg table tbody td textarea
th thead time title tr ul
"""
_ATTRIBUTES = """
action aria-current aria-hidden aria-label aria-labelledby autocomplete autofocus charset class colspan
content data-closes data-elements data-filters data-from data-is-so data-opens data-reloads data-shortcut
data-start data-to data-today data-unfolds
datetime defer dir for height hidden href http-equiv hx-headers hx-post hx-target hx-vals id lang max method min name
placeholder preserveaspectratio rel required role rows scope src step tabindex title type value viewbox width
x x1 x2 y y1 y2
"""
TAGS, ATTRIBUTES = frozenset(_TAGS.split()), frozenset(_ATTRIBUTES.split())
"""All tags and attributes that the templates use: none that runs a script."""
JSON_ATTRIBUTES = ("hx-headers", "hx-vals", "data-elements")
ADDRESSES = ("href", "src", "action", "hx-post")


def unpack_pages(view: MemoryView) -> dict[str, str]:
    """The pages of a document, by their addresses."""
    match = re.search(r'<script type="text/plain" id="pages">([^<]*)</script>', view.html)
    assert match
    packed = json.loads(gzip.decompress(base64.b64decode(match[1])))
    return {
        address: re.sub(r"<(\d+)>", lambda number: packed["texts"][int(number[1])], page)
        for address, page in packed["pages"].items()
    }


def strip_scripts(view: MemoryView) -> str:
    """A document without its scripts, styles and packed pages."""
    return re.sub(r"<(script|style)\b[^>]*>.*?</\1>", "", view.html, flags=re.DOTALL)


@dataclass
class ParsedPage(HTMLParser):
    """The elements and the text of a page."""

    html: str
    tags: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    text: str = ""

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attributes}))

    def handle_data(self, data: str) -> None:
        self.text += data

    def list_addresses(self) -> list[str]:
        """List all that the page leads to, or sends something to."""
        return [values[name] for _, values in self.tags for name in ADDRESSES if name in values]

    def check_inert(self, base: str = "") -> None:
        """Nothing but what the templates say stands in the page, and it leads nowhere else."""
        for tag, values in self.tags:
            assert tag in TAGS, tag
            assert values.keys() <= ATTRIBUTES, (tag, values)
            assert tag != "script" or values["src"].startswith(f"{base}/static/"), values
            for name in JSON_ATTRIBUTES:
                json.loads(values.get(name, "{}"))
        for address in self.list_addresses():
            assert address.startswith((f"{base}/", "#main")) or address == "data:,", address
            assert not address.startswith("//"), address
