"""Render one page of a user's memory from its template; whatever comes from memory is escaped."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from adk_graph_memory import errors
from adk_graph_memory.html_pages import filters
from adk_graph_memory.records import Scope
from adk_graph_memory.records.results import ENDING_NOTES

if TYPE_CHECKING:
    from jinja2 import Environment

STATIC_FOLDER = Path(__file__).parent / "static"
"""Style, script, and the libraries that these use, with their licences."""


@cache
def load_templates() -> Environment:
    """Load the templates.

    Raises:
        errors.ExtraMissing: Jinja2 is not installed.
    """
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError as error:
        raise errors.ExtraMissing(what="A page of memory", extra="inspect", reason=error) from error
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(filters.FILTERS)
    environment.globals.update(
        ending_notes=ENDING_NOTES,
        infinity=float("inf"),
        operations=filters.OPERATION_NAMES,
        signals=filters.SIGNAL_NAMES,
    )
    return environment


class PageRenderer:
    """Renders the pages of one user's memory.

    Args:
        owner: whose memory it is.
        base: what each address begins with: the path under which a server has the pages, or ``#`` in a file.
        write_token: lets the page change memory; None for a page that only shows it.
    """

    def __init__(self, owner: Scope, base: str, write_token: str | None = None) -> None:
        self._context = {"owner": owner, "url": self.make_url, "write_token": write_token, "view": ""}
        self._base = base

    def make_url(self, *parts: str) -> str:
        """Make the address of a page: its parts are escaped, whatever they hold."""
        return f"{self._base}/{'/'.join(quote(part, safe='') for part in parts)}"

    def render(self, template: str, **context: Any) -> str:
        """Render a template with what it shows.

        Raises:
            errors.ExtraMissing: Jinja2 is not installed.
        """
        return load_templates().get_template(template).render(self._context | context)
