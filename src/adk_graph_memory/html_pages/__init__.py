"""Render what a memory holds as HTML: pages of a server, one file to send, and a view in a notebook."""

from adk_graph_memory.html_pages.renderer import STATIC_FOLDER, PageRenderer

__all__ = ["STATIC_FOLDER", "PageRenderer"]
