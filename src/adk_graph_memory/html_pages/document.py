"""Make one file of many pages: it opens in any browser, without a server and without a network."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adk_graph_memory.html_pages.renderer import FILE_BASE, STATIC_FOLDER, load_templates
from adk_graph_memory.private_files import write_private_file
from adk_graph_memory.records import Scope

_SHARED_TEXT = re.compile(r"""(>|=")([^<>"]{24,})(?=[<"])""")
"""A text or the value of an attribute that is long enough to be worth a number."""
_SCRIPT_END = re.compile(r"</(?=script)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class MemoryView:
    """What memory holds of a user, as one HTML document; a notebook shows it in a frame."""

    html: str

    def save(self, path: str | Path) -> Path:
        """Write the document to a file, which opens in any browser; only its owner may read it.

        Raises:
            errors.InvalidArgument: the file cannot be written.
        """
        file = Path(path)
        with write_private_file(file) as output:
            output.write(self.html)
        return file

    def _repr_html_(self) -> str:
        style = "width: 100%; height: 42rem; border: 1px solid #d4dae0; border-radius: 6px"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{html.escape(self.html)}"></iframe>'


def make_document(owner: Scope, pages: Mapping[str, str], start: str, note: str) -> MemoryView:
    """Make a document of rendered pages.

    Args:
        owner: whose memory it is.
        pages: the HTML of each page, by its address (``#/facts/…``).
        start: the address of the page that is shown first.
        note: stands at the top: of when the document is, and what it leaves out.
    """
    packed = base64.b64encode(gzip.compress(_pack_pages(pages).encode(), mtime=0)).decode()
    style = _read_static("inspector.css")
    scripts = [_read_static(name) for name in ("cytoscape.min.js", "inspector.js", "document.js")]
    scripts = [_SCRIPT_END.sub(r"<\\/", script) for script in scripts]
    policy = (
        f"default-src 'none'; script-src {' '.join(map(_hash, scripts))}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    template = load_templates().get_template("document.html")
    contents: dict[str, Any] = {"packed": packed, "style": style, "scripts": scripts, "policy": policy}
    contents |= {"has_answer": f"{FILE_BASE}/answer" in pages, "has_profile": f"{FILE_BASE}/" in pages}
    return MemoryView(template.render(contents, owner=owner, start=start, note=note, base=FILE_BASE))


def _pack_pages(pages: Mapping[str, str]) -> str:
    """Write pages as JSON, with texts and addresses that may stand in several once, and ``<n>`` in their place.

    Nothing from memory can look like that: in a page, its ``<`` is escaped.
    """
    numbers: dict[str, int] = {}

    def number_text(match: re.Match[str]) -> str:
        return f"{match[1]}<{numbers.setdefault(match[2], len(numbers))}>"

    shared = {address: _SHARED_TEXT.sub(number_text, page) for address, page in pages.items()}
    return json.dumps({"pages": shared, "texts": list(numbers)}, ensure_ascii=False)


def _read_static(name: str) -> str:
    return (STATIC_FOLDER / name).read_text("utf-8")


def _hash(text: str) -> str:
    """Hash a script or style as a policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
