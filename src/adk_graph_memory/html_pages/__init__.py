"""Render what a memory holds as HTML: pages of a server, one file to send, and a view in a notebook."""

from adk_graph_memory.html_pages.document import MemoryView, make_document
from adk_graph_memory.html_pages.renderer import FILE_BASE, STATIC_FOLDER, Answer, Page, PageRenderer

__all__ = ["FILE_BASE", "STATIC_FOLDER", "Answer", "MemoryView", "Page", "PageRenderer", "make_document"]
